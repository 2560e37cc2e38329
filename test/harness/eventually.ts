/** Waiting for what another process does: polled, because it cannot be awaited. */
import { setTimeout as delay } from 'node:timers/promises';

export interface EventuallyOptions {
  /** When to give up, in milliseconds; the default of 10 s is far above what anything here needs. */
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
  /** What is waited for, for the error message. */
  readonly what?: string;
}

/** Thrown by an attempt that can never succeed any more: waiting ends at once. */
export class GiveUp extends Error {}

/**
 * Calls `attempt` until it does not throw, and gives its result. At the deadline the last error is thrown, so that a
 * failed assertion inside `attempt` shows as itself.
 */
export async function eventually<T>(attempt: () => Promise<T> | T, options: EventuallyOptions = {}): Promise<T> {
  const { timeoutMs = 10_000, intervalMs = 25, what } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (error instanceof GiveUp) throw error;
      if (performance.now() >= deadline) {
        if (what === undefined) throw error;
        throw new Error(`${what}: not within ${timeoutMs} ms`, { cause: error });
      }
    }
    await delay(intervalMs);
  }
}
