/** The key of a stream's caller, by which memory and generation are limited and the time of the program is shared. */
import { networkOf } from '../../../grpc/index.ts';
import type { Caller } from '../../../security/index.ts';

const IDENTITY = 'spiffe://';

/** The authenticated identity, or else the address of the peer (`address:port`); of IPv6 the first 64 bits. */
export function callerKey(caller: Caller | undefined, peer: string): string {
  if (caller === undefined) return networkOf(peer.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1'));
  const { trustDomain, namespace, serviceAccount } = caller.identity;
  return `${IDENTITY}${trustDomain}/ns/${namespace}/sa/${serviceAccount}`;
}

/** Whether the key is of an authenticated caller. */
export function isIdentityKey(key: string): boolean {
  return key.startsWith(IDENTITY);
}
