/**
 * Resolves names while the names of the mesh are not known yet. Names outside the mesh are resolved. NXDOMAIN is
 * replaced by SERVFAIL, because the name may be one of the mesh: clients cache that a name does not exist, and retry
 * after SERVFAIL.
 */
import { CtlError } from '../../core/errors.ts';
import type { DnsAnswer, DnsResolver } from '../../dns/index.ts';

/** RFC 1035, 4.1.1: the name does not exist. */
const NXDOMAIN = 3;

/** @param known whether the names are known, or no longer waited for; read for each query */
export function createWarmUpResolver(known: () => boolean): DnsResolver {
  return {
    resolve(_query, _client, next) {
      return known() ? next() : existing(next());
    },
  };
}

async function existing(answer: DnsAnswer): Promise<Buffer> {
  const response = await answer;
  // The lowest four bits of the fourth byte are the response code.
  if (((response[3] ?? 0) & 0x0f) !== NXDOMAIN) return response;
  throw new CtlError('unavailable', 'the names of the mesh are not known yet');
}
