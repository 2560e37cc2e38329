/** Addresses of a host name, from the name servers of /etc/resolv.conf. The file of hosts and search domains are not used. */
import type { RecordWithTtl } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { messageOf } from '../../core/errors.ts';

/** What the name servers say about one address family of a name. */
export type FamilyAnswer =
  | {
      /** None: the name does not exist, or has no address of this family. */
      readonly addresses: readonly string[];
      /** How long they may be used, s; undefined where the answer does not say. */
      readonly ttlSeconds: number | undefined;
    }
  /** No server answers. */
  | { readonly problem: string };

export interface HostAnswer {
  readonly ipv4: FamilyAnswer;
  readonly ipv6: FamilyAnswer;
}

/** @param signal ends the lookup: a family without an answer then has the signal's reason as its problem */
export type ResolveHost = (host: string, signal: AbortSignal) => Promise<HostAnswer>;

/** Time limit of one attempt, ms. */
const TIMEOUT_MS = 2000;
const TRIES = 2;
/** The servers answered: there is no such name, or it has no address of this family. */
const ABSENT: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA']);
/** Connections to these would lead back to the caller. */
const UNSPECIFIED: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** @param servers instead of those of /etc/resolv.conf, as `address` or `address:port` */
export async function resolveHost(host: string, signal: AbortSignal, servers?: readonly string[]): Promise<HostAnswer> {
  // A new one each time, because it reads /etc/resolv.conf when it is created.
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  const ttl = { ttl: true } as const;
  const [v4, v6] = [resolver.resolve4(host, ttl), resolver.resolve6(host, ttl)];
  const cancel = (): void => resolver.cancel();
  signal.addEventListener('abort', cancel);
  if (signal.aborted) cancel();
  const [ipv4, ipv6] = await Promise.all([familyAnswer(v4, signal), familyAnswer(v6, signal)]);
  signal.removeEventListener('abort', cancel);
  return { ipv4, ipv6 };
}

async function familyAnswer(answer: Promise<readonly RecordWithTtl[]>, signal: AbortSignal): Promise<FamilyAnswer> {
  try {
    const usable = (await answer).filter(({ address }) => isIP(address) !== 0 && !UNSPECIFIED.has(address));
    const addresses = [...new Set(usable.map(({ address }) => address))].sort();
    return { addresses, ttlSeconds: usable.length === 0 ? undefined : Math.min(...usable.map((each) => each.ttl)) };
  } catch (error) {
    if (isAbsent(error)) return { addresses: [], ttlSeconds: undefined };
    return { problem: messageOf(signal.aborted ? signal.reason : error) };
  }
}

function isAbsent(reason: unknown): boolean {
  return reason instanceof Error && 'code' in reason && ABSENT.has(reason.code);
}
