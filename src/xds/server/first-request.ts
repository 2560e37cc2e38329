/** Ends ADS streams on which no request arrives. */
import type { ReadingTransport } from './transport.ts';

/** A proxy sends its first request at once. A stream without one would use a part of the limit for nothing. */
const FIRST_REQUEST_MS = 30_000;

/**
 * Calls `end` when no first request arrives in time, unless it waits for memory here.
 * @returns cancels that; to be called when a request has arrived or the stream has ended
 */
export function awaitFirstRequest(
  transport: ReadingTransport,
  timeoutMs: number = FIRST_REQUEST_MS,
  end: () => void,
): () => void {
  let [cancelled, timer]: [boolean, NodeJS.Timeout | undefined] = [false, undefined];
  const check = (): void => {
    if (cancelled) return;
    if (transport.waitsForQuota) wait();
    else end();
  };
  const wait = (): void => {
    // Bytes that arrived while the process was busy are read first.
    timer = setTimeout(() => setImmediate(check), timeoutMs).unref();
  };
  wait();
  return () => {
    cancelled = true;
    clearTimeout(timer);
  };
}
