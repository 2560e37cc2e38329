/**
 * A steady trickle of requests to the gateway, so that the view shows where traffic goes from one moment to the next.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { request } from '../../../test/harness/index.ts';
import type { ApplicationReply } from './applications.ts';
import type { Place } from './ports.ts';

/** Between two requests, milliseconds. */
const INTERVAL_MS = 25;
/** Requests looked back on: about three seconds' worth steadies the shares, and an edit still shows at once. */
const WINDOW = 100;

/** Outcome (`hello-v1`, `status 503`, …) → how many of the last requests had it. */
export type AddressLimits = ReadonlyMap<string, number>;

/** Name of who answered, or what else happened. */
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
  /** Settles when the last request has. */
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

/** How often each word occurs, the words in order. */
export function countOf(words: readonly string[]): AddressLimits {
  const counts = new Map<string, number>();
  for (const word of [...words].sort()) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
