/**
 * The agent's end (specification: ctl-agent "States and transitions"). Running → Draining on the first SIGTERM or SIGINT → Terminated
 * when the drain time has passed, or at once when Envoy has ended by itself or a second signal comes. There is one deadline,
 * and nothing that is waited for can outlast it.
 */
import type { Logger } from '../observe/logging.ts';

export interface DrainDeps {
  /** Tells Envoy to drain: no new connections, existing ones may complete. May fail or hang; it is not waited for. */
  readonly announce: (signal: AbortSignal) => Promise<void>;
  /** Settles when no Envoy runs any more. */
  readonly envoyEnded: Promise<unknown>;
  /** Settles at the second signal. */
  readonly forced: Promise<unknown>;
  readonly signal: (signal: 'SIGTERM' | 'SIGKILL') => void;
  /** Resolves after the time or, early, when the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Logger;
}

/** After the drain time Envoy is asked to end, which writes what it has buffered; it is killed when it takes longer. */
const LAST_WORDS_MS = 500;

/** Runs the transition; resolves when Envoy has ended. */
export async function drainAndEnd(durationMs: number, deps: DrainDeps): Promise<void> {
  const over = new AbortController();
  const wait = (ms: number): Promise<'time'> => deps.sleep(ms, over.signal).then(() => 'time' as const);
  const ended = deps.envoyEnded.then(() => 'ended' as const);
  const forced = deps.forced.then(() => 'forced' as const);
  try {
    deps.announce(over.signal).catch((error: unknown) => {
      if (!over.signal.aborted) deps.log.warn('Envoy could not be told to drain', { reason: String(error) });
    });
    const first = await Promise.race([ended, forced, wait(durationMs)]);
    if (first === 'ended') return;
    if (first === 'time') {
      deps.signal('SIGTERM');
      const second = await Promise.race([ended, forced, wait(LAST_WORDS_MS)]);
      if (second === 'ended') return;
    } else {
      deps.log.info('ended at once by a second signal');
    }
    deps.signal('SIGKILL');
    await ended;
  } finally {
    over.abort();
  }
}
