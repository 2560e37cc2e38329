/**
 * Whose a stream is, as a key: what its caller may make us keep and generate is bounded, and all callers are served in
 * turns.
 */
import { networkOf } from '../../grpc/index.ts';
import type { Caller } from '../../security/types.ts';

/** The proved identity; else the address that the stream comes from (`address:port`), of IPv6 the first 64 bits. */
export function callerKey(caller: Caller | undefined, peer: string): string {
  if (caller === undefined) return networkOf(peer.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1'));
  const { trustDomain, namespace, serviceAccount } = caller.identity;
  return `spiffe://${trustDomain}/ns/${namespace}/sa/${serviceAccount}`;
}
