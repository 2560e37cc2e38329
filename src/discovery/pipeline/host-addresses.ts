/** The addresses of a gateway's host name, from the answers of name servers and from the addresses that it had. */
import { isIP } from 'node:net';
import type { FamilyAnswer, HostAnswer } from './resolve-host.ts';

/** Every client has all addresses of a name. A name with more addresses is not the name of one gateway. */
export const MAX_ADDRESSES = 16;

export interface HostAddresses {
  /** Sorted. */
  readonly addresses: readonly string[];
  /** How long they may be used, s; undefined where the answer does not say. */
  readonly ttlSeconds: number | undefined;
  /** Why addresses of one family are those of an earlier answer. */
  readonly outdated: string | undefined;
  /** Addresses beyond the limit. */
  readonly leftOut: number;
}

/**
 * An address family that no server answers for keeps its last addresses.
 * @param last the addresses so far; undefined: none were known
 * @returns a problem when no server answers, and nothing is known without that answer
 */
export function hostAddresses(
  last: readonly string[] | undefined,
  { ipv4, ipv6 }: HostAnswer,
): HostAddresses | { readonly problem: string } {
  const families = [familyOf(last, ipv4, 4), familyOf(last, ipv6, 6)];
  const problems = families.flatMap(({ problem }) => problem ?? []);
  const all = families.flatMap(({ addresses }) => addresses).sort();
  const isAnswered = families.some(({ addresses, problem }) => addresses.length > 0 && problem === undefined);
  // A server that fails for one family says nothing of use about a name without addresses of the other.
  if (problems[0] !== undefined && !isAnswered) return { problem: problems[0] };
  const outdated = families.find(({ addresses, problem }) => addresses.length > 0 && problem !== undefined);
  const ttls = families.flatMap(({ ttlSeconds }) => ttlSeconds ?? []);
  return {
    addresses: all.slice(0, MAX_ADDRESSES),
    ttlSeconds: ttls.length === 0 ? undefined : Math.min(...ttls),
    outdated: outdated?.problem,
    leftOut: Math.max(0, all.length - MAX_ADDRESSES),
  };
}

interface Family {
  readonly addresses: readonly string[];
  readonly ttlSeconds?: number | undefined;
  readonly problem?: string;
}

function familyOf(last: readonly string[] = [], answer: FamilyAnswer, version: 4 | 6): Family {
  if (!('problem' in answer)) return answer;
  return { addresses: last.filter((address) => isIP(address) === version), problem: answer.problem };
}
