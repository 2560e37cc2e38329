/** Waiting for another process: by polling, because it cannot be awaited. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { printReports } from './diagnostics.ts';

export interface EventuallyOptions {
  /**
   * How long to wait without progress, in milliseconds of a machine with a core for every task. On a crowded machine
   * the wait is longer. The default of 30 s is far more than anything here needs.
   */
  readonly timeoutMs?: number;
  /**
   * Between two attempts. Default: 25 ms, three times as long as the last attempt took, or a tenth of the wait so far,
   * whichever is longest, at most 250 ms.
   */
  readonly intervalMs?: number;
  /** The name of the awaited condition, for the error message. */
  readonly what?: string;
}

/** The clock and load that waiting reads; its own tests replace them. */
export interface WaitingMachine {
  /** Milliseconds. */
  now(): number;
  sleep(ms: number): Promise<unknown>;
  /** How many tasks want each core, at least 1. */
  crowding(): number;
}

/** Thrown by an attempt that can no longer succeed: waiting ends at once. */
export class GiveUp extends Error {}

/**
 * Waiting ends after this many times the timeout, however crowded the machine is and whatever progress there seems to
 * be.
 */
const MOST_TIMEOUTS = 10;
/**
 * Pauses between attempts, ms. Tests that wait for seconds, as for a lease, would otherwise spend a large part of a
 * core on attempts.
 */
const [SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS] = [25, 250];
const PAUSE_SHARE = 0.1;
/** An attempt that starts a program, as in a namespace, would otherwise take most of a core, also of what it awaits. */
const PAUSE_ATTEMPTS = 3;
/** A new error is progress, but only so many times: an attempt may throw a different one each time. */
const MOST_STEPS = 16;

const machine: WaitingMachine = { now: () => performance.now(), sleep: delay, crowding: () => runnable() / CORES };
const CORES = availableParallelism();

/**
 * Tasks that run or want to: the fourth field of /proc/loadavg is `running/all` (proc(5)). Elsewhere than on Linux:
 * none.
 */
function runnable(): number {
  try {
    return Number(/(\d+)\/\d+/.exec(readFileSync('/proc/loadavg', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/**
 * Calls `attempt` until it does not throw, and returns its result. Waiting follows progress, not the clock alone: time
 * counts by the share of a core that a task gets, and a new error restarts it. At the end the last error is thrown, so
 * that a failed assertion inside `attempt` is shown as it is, and the reports of `diagnostics.ts` are printed.
 */
export async function eventually<T>(
  attempt: () => Promise<T> | T,
  options: EventuallyOptions = {},
  { now, sleep, crowding }: WaitingMachine = machine,
): Promise<T> {
  const { timeoutMs = 30_000, intervalMs, what } = options;
  const started = now();
  const pause = (attemptMs: number) =>
    Math.min(Math.max(SHORTEST_PAUSE_MS, attemptMs * PAUSE_ATTEMPTS, (last - started) * PAUSE_SHARE), LONGEST_PAUSE_MS);
  const steps = new Set<string>();
  let [last, waited] = [started, 0];
  for (;;) {
    try {
      const result = await attempt();
      // An attempt fails by throwing: without this, one that returns false would end the waiting as a success.
      if (result === false) throw new GiveUp('an attempt of `eventually` returned false instead of throwing');
      return result;
    } catch (error) {
      if (error instanceof GiveUp) throw error;
      const step = stepOf(error);
      if (steps.size < MOST_STEPS && !steps.has(step)) {
        steps.add(step);
        waited = 0;
      }
      if (waited >= timeoutMs || last - started >= MOST_TIMEOUTS * timeoutMs) {
        printReports();
        if (what === undefined) throw error;
        throw new Error(`${what}: not within ${Math.round(last - started)} ms`, { cause: error });
      }
    }
    await sleep(intervalMs ?? pause(now() - last));
    const at = now();
    waited += (at - last) / Math.max(1, crowding());
    last = at;
  }
}

/** An error without its numbers: ports, counts and times that change from attempt to attempt are not progress. */
function stepOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\d+/g, '#');
}
