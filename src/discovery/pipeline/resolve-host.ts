/** Addresses of a host name, from the name servers of /etc/resolv.conf. The file of hosts and search domains are not used. */
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { CtlError, messageOf } from '../../core/errors.ts';

export interface HostAnswer {
  /** IP addresses, sorted; none: the name does not exist, or has no address. */
  readonly addresses: readonly string[];
  /** How long they may be used, s; undefined where the answer does not say. */
  readonly ttlSeconds: number | undefined;
}

export type ResolveHost = (host: string) => Promise<HostAnswer>;

/** Every client has all addresses of a name; a name with more is no name of one gateway. */
const MAX_ADDRESSES = 16;
/** Of one attempt, ms. */
const TIMEOUT_MS = 2000;
const TRIES = 2;
/** The servers answered: there is no such name, or it has no address of this family. */
const ABSENT: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA']);
/** Connections to these would lead back to the caller. */
const UNSPECIFIED: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

interface Record {
  readonly address: string;
  readonly ttl: number;
}

/**
 * Rejects with CtlError when no server answers for either address family.
 * @param servers instead of those of /etc/resolv.conf, as `address` or `address:port`
 */
export async function resolveHost(host: string, servers?: readonly string[]): Promise<HostAnswer> {
  // A new one each time, because it reads /etc/resolv.conf when it is made.
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  const ttl = { ttl: true } as const;
  const answers = await Promise.allSettled([resolver.resolve4(host, ttl), resolver.resolve6(host, ttl)]);
  const failures = answers.flatMap((each) => (each.status === 'rejected' && !isAbsent(each.reason) ? each.reason : []));
  const records = answers.flatMap((each): Record[] => (each.status === 'fulfilled' ? each.value : []));
  const usable = records.filter(({ address }) => isIP(address) !== 0 && !UNSPECIFIED.has(address));
  // With an answer for one family, a server that fails for the other does not matter.
  if (usable.length === 0 && failures.length > 0)
    throw new CtlError('unavailable', `host name ${host} cannot be resolved: ${messageOf(failures[0])}`);
  const addresses = [...new Set(usable.map(({ address }) => address))].sort().slice(0, MAX_ADDRESSES);
  return { addresses, ttlSeconds: usable.length === 0 ? undefined : Math.min(...usable.map((each) => each.ttl)) };
}

function isAbsent(reason: unknown): boolean {
  return reason instanceof Error && 'code' in reason && ABSENT.has(reason.code);
}
