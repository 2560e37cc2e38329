/**
 * The agent's end (specification: ctl-agent "States and transitions"). Running → Draining on the first SIGTERM or
 * SIGINT → Terminated when the drain time has passed, or at once when Envoy has ended by itself or a second signal
 * comes. There is one deadline, and nothing that is waited for can outlast it.
 *
 *   0               half of the time                 all of it
 *   ├── discourage ──┼── no new connections ─────────┤ SIGTERM, SIGKILL
 *
 * In the first half Envoy still accepts connections, so that callers that have not learned yet that the endpoint goes
 * away are served, and every answer tells its connection to end (`connection: close`, GOAWAY). Then the listeners are
 * closed: a caller that comes all the same is refused before it has sent anything, which every client may retry
 * elsewhere, and what is under way has the second half to complete. Listeners that stayed open to the end would lose
 * the requests that arrived last.
 */
import type { Logger } from '../logging/index.ts';

export interface DrainDeps {
  /** Tells Envoy to discourage its callers. May fail or hang; it is not waited for. */
  readonly discourage: (signal: AbortSignal) => Promise<void>;
  /** Tells Envoy to close its listeners; connections that there are go on. May fail or hang; it is not waited for. */
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

/** After the drain time Envoy is asked to end, which writes what it has buffered; it is killed when it takes longer. */
const FLUSH_MS = 500;

/** Runs the transition; resolves when Envoy has ended. */
export async function drainAndEnd(durationMs: number, deps: DrainDeps): Promise<void> {
  const over = new AbortController();
  const wait = (ms: number): Promise<'time'> => deps.sleep(ms, over.signal).then(() => 'time' as const);
  const ended = deps.envoyEnded.then(() => 'ended' as const);
  const forced = deps.forced.then(() => 'forced' as const);
  const tell = (what: string, step: DrainDeps['discourage']): void => {
    step(over.signal).catch((error: unknown) => {
      if (!over.signal.aborted) deps.log.warn(`Envoy could not be told to ${what}`, { reason: String(error) });
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
