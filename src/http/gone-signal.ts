/** Aborts the work for a response whose client is gone. */
import type { ServerResponse } from 'node:http';

/** Aborts when the response has been sent, or its client has closed the connection. */
export function goneSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  return gone.signal;
}
