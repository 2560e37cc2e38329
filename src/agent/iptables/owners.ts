/** Matches of packets that the proxy itself sends. */
import type { Redirection } from './types.ts';

/** One match for each user and each group of the proxy. */
export function proxyOwners({ proxyUids, proxyGids }: Redirection): readonly string[] {
  return [
    ...proxyUids.map((uid) => `-m owner --uid-owner ${uid}`),
    ...proxyGids.map((gid) => `-m owner --gid-owner ${gid}`),
  ];
}
