/** Traffic that continues while a test does something. The test checks for failed requests at the end. */
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, type RequestOptions } from '../../harness/index.ts';
import { call } from './traffic.ts';

export interface SteadyTraffic {
  /** Settles after so many further requests. */
  more(count: number): Promise<void>;
  /** Stops the traffic and returns a line for each request that was not answered with 200. */
  stop(): Promise<readonly string[]>;
}

/** Between two requests to a target: short enough to notice a gap, long enough to leave cores free. */
const PAUSE_MS = 5;

/** Sends requests to each target, one after the other, until it is stopped. */
export function startTraffic(targets: readonly RequestOptions[]): SteadyTraffic {
  const failures: string[] = [];
  let sent = 0;
  let stopping = false;
  const send = async (target: RequestOptions) => {
    while (!stopping) {
      try {
        const { status } = await call(target);
        if (status !== 200) failures.push(`${target.address}: ${status}`);
      } catch (error) {
        failures.push(`${target.address}: ${error instanceof Error ? error.message : String(error)}`);
      }
      sent++;
      await delay(PAUSE_MS);
    }
  };
  const loops = targets.map(send);
  return {
    async more(count) {
      const goal = sent + count;
      await eventually(() => {
        if (sent < goal) throw new Error(`${goal - sent} requests to go`);
      });
    },
    async stop() {
      stopping = true;
      await Promise.all(loops);
      return failures;
    },
  };
}
