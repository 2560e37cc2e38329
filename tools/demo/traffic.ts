/**
 * A steady trickle of requests to the gateway, so that the view shows where traffic goes from one moment to the next.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { request } from '../../test/harness/index.ts';
import type { ApplicationReply } from './applications.ts';
import type { Place } from './ports.ts';

/** Interval between two requests, milliseconds. */
const INTERVAL_MS = 25;
/** Number of last requests for the shares: about three seconds, so that shares are stable and an edit shows at once. */
const WINDOW = 100;

/** Outcome (`hello-v1`, `status 503`, …) → how many of the last requests had it. */
export type AddressLimits = ReadonlyMap<string, number>;

/** The name of the application that answered, or another outcome. */
async function outcome(gateway: Place): Promise<string> {
  try {
    const answer = await request({ address: gateway.address, port: gateway.port, path: '/hello', timeoutMs: 2000 });
    return answer.status === 200 ? (answer.json() as ApplicationReply).app : `status ${answer.status}`;
  } catch {
    return 'no answer';
  }
}

export interface Traffic {
  shares(): AddressLimits;
  /** Settles after the last request. */
  stop(): Promise<void>;
}

export function startTraffic(gateway: Place): Traffic {
  const stopping = new AbortController();
  const recent: string[] = [];
  const run = async () => {
    while (!stopping.signal.aborted) {
      recent.push(await outcome(gateway));
      if (recent.length > WINDOW) recent.shift();
      await delay(INTERVAL_MS, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };
  const done = run();
  return {
    shares: () => countOf(recent),
    stop: () => {
      stopping.abort();
      return done;
    },
  };
}

/** The count of each word, in the order of words. */
export function countOf(words: readonly string[]): AddressLimits {
  const counts = new Map<string, number>();
  for (const word of [...words].sort()) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
