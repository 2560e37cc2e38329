/**
 * Ends the agent. Running → Draining on the first request to end → Terminated when the drain time has passed, or at
 * once when Envoy has ended by itself or a second request arrives. There is one deadline, and no step can exceed it.
 *
 *   0               half of the time                 all of it
 *   ├── discourage ──┼── no new connections ─────────┤ SIGTERM, SIGKILL
 *
 * In the first half Envoy still accepts connections, to serve callers that have not learned yet that the endpoint is
 * removed, and every response tells its connection to end (`connection: close`, GOAWAY). Then the listeners are closed:
 * a new connection is refused before it has sent anything, so that every client may retry elsewhere, and requests in
 * progress have the second half to complete. Listeners that stayed open to the end would lose the requests that arrived
 * last.
 *
 * With EXIT_ON_ZERO_ACTIVE_CONNECTIONS there is no fixed drain time: callers are discouraged for
 * MINIMUM_DRAIN_DURATION, the listeners are closed, and Envoy ends with the last connection. The sender of the signal
 * sets the limit (`terminationGracePeriodSeconds` of a Pod, `TimeoutStopSec` of a unit).
 */
import { messageOf } from '../../core/errors.ts';
import type { Logger } from '../../logging/index.ts';

export type DrainTime =
  | { readonly until: 'time'; readonly ms: number }
  | { readonly until: 'no connections'; readonly minimumMs: number };

export interface DrainDeps {
  /** Tells Envoy to discourage its callers. May fail or hang; the agent does not wait for it. */
  readonly discourage: (signal: AbortSignal) => Promise<void>;
  /**
   * Tells Envoy to close its listeners; existing connections continue. May fail or hang; the agent does not wait for
   * it.
   */
  readonly closeListeners: (signal: AbortSignal) => Promise<void>;
  /** Returns the number of Envoy's remaining connections. May fail. */
  readonly connections: (signal: AbortSignal) => Promise<number>;
  /** Settles when Envoy has ended. */
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

/** Interval between two counts of connections. */
const COUNT_PERIOD_MS = 1_000;
/** Envoy's main thread may be busy; after so many requests without a response, Envoy hangs. */
const MAX_COUNT_FAILURES = 5;

/** Runs the transition; resolves when Envoy has ended. */
export async function drainAndEnd(time: DrainTime, deps: DrainDeps): Promise<void> {
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
      return wait(time.until === 'time' ? time.ms / 2 : time.minimumMs);
    },
    () => {
      tell('close its listeners', deps.closeListeners);
      return time.until === 'time' ? wait(time.ms / 2) : untilUnused(deps, over.signal);
    },
    () => {
      deps.signal('SIGTERM');
      return wait(FLUSH_MS);
    },
  ];
  const isAtOnce = time.until === 'time' && time.ms === 0;
  try {
    for (const stage of isAtOnce ? stages.slice(-1) : stages) {
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

/** Resolves when Envoy has no connections, or no longer reports them. */
async function untilUnused({ connections, sleep, log }: DrainDeps, over: AbortSignal): Promise<'time'> {
  let failures = 0;
  while (!over.aborted) {
    await sleep(COUNT_PERIOD_MS, over);
    try {
      const count = over.aborted ? 0 : await connections(over);
      failures = 0;
      if (count === 0) break;
      log.debug('connections remain', { count });
    } catch (error) {
      failures++;
      if (over.aborted || failures < MAX_COUNT_FAILURES) continue;
      log.warn('Envoy does not report its connections; terminating Envoy', { reason: messageOf(error) });
      break;
    }
  }
  return 'time';
}
