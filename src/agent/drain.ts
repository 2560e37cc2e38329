/**
 * Ends the agent (specification: ctl-agent "States and transitions"). Running → Draining on the first SIGTERM or SIGINT
 * → Terminated when the drain time has passed, or at once when Envoy has ended by itself or a second signal arrives.
 * There is one deadline, and no step can exceed it.
 *
 *   0               half of the time                 all of it
 *   ├── discourage ──┼── no new connections ─────────┤ SIGTERM, SIGKILL
 *
 * In the first half Envoy still accepts connections, to serve callers that have not learned yet that the endpoint is
 * removed, and every response tells its connection to end (`connection: close`, GOAWAY). Then the listeners are closed:
 * a new connection is refused before it has sent anything, so that every client may retry elsewhere, and requests in
 * progress have the second half to complete. Listeners that stayed open to the end would lose the requests that arrived
 * last.
 */
import type { Logger } from '../logging/index.ts';

export interface DrainDeps {
  /** Tells Envoy to discourage its callers. May fail or hang; the agent does not wait for it. */
  readonly discourage: (signal: AbortSignal) => Promise<void>;
  /**
   * Tells Envoy to close its listeners; existing connections continue. May fail or hang; the agent does not wait for
   * it.
   */
  readonly closeListeners: (signal: AbortSignal) => Promise<void>;
  /** Settles when no Envoy runs any more. */
  readonly envoyEnded: Promise<unknown>;
  /** Settles at the second signal. */
  readonly forced: Promise<unknown>;
  readonly signal: (signal: 'SIGTERM' | 'SIGKILL') => void;
  /** Resolves after the time or, early, when the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Logger;
}

/**
 * After the drain time Envoy gets SIGTERM, on which it writes its buffers; it is killed when it takes longer than this.
 */
const FLUSH_MS = 500;

/** Runs the transition; resolves when Envoy has ended. */
export async function drainAndEnd(durationMs: number, deps: DrainDeps): Promise<void> {
  const over = new AbortController();
  const wait = (ms: number): Promise<'time'> => deps.sleep(ms, over.signal).then(() => 'time' as const);
  const ended = deps.envoyEnded.then(() => 'ended' as const);
  const forced = deps.forced.then(() => 'forced' as const);
  const tell = (what: string, step: DrainDeps['discourage']): void => {
    step(over.signal).catch((error: unknown) => {
      if (!over.signal.aborted) deps.log.warn(`Envoy did not accept the request to ${what}`, { reason: String(error) });
    });
  };
  const stages: readonly (() => Promise<'time'>)[] = [
    () => {
      tell('drain', deps.discourage);
      return wait(durationMs / 2);
    },
    () => {
      tell('close its listeners', deps.closeListeners);
      return wait(durationMs / 2);
    },
    () => {
      deps.signal('SIGTERM');
      return wait(FLUSH_MS);
    },
  ];
  try {
    for (const stage of durationMs > 0 ? stages : stages.slice(-1)) {
      const outcome = await Promise.race([ended, forced, stage()]);
      if (outcome === 'ended') return;
      if (outcome === 'forced') {
        deps.log.info('ended at once by a second signal');
        break;
      }
    }
    deps.signal('SIGKILL');
    await ended;
  } finally {
    over.abort();
  }
}
