/** Sends at a rate, whether or not there are answers. */
import { setTimeout as delay } from 'node:timers/promises';

const STEP_MS = 1;

export interface Pace {
  /** A second. */
  readonly rate: number;
  /** When it ends, as `performance.now()`. */
  readonly until: number;
  /** The most that are sent at once. Those missed while this process was not scheduled are skipped, as by any client. */
  readonly maxBurst: number;
}

/** Calls `send` at this rate until the end. */
export async function sendAtRate({ rate, until, maxBurst }: Pace, send: () => void): Promise<void> {
  const started = performance.now();
  for (let due = 0; performance.now() < until; await delay(STEP_MS)) {
    const behind = Math.floor(((performance.now() - started) / 1000) * rate) - due;
    due += behind;
    for (let count = Math.min(behind, maxBurst); count > 0; count--) send();
  }
}
