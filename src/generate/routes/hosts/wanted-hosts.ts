/**
 * The virtual hosts of a port that proxies on demand have asked for, with the same bytes as among all. Others are not
 * generated.
 */
import { compareText } from '../../../model/index.ts';
import { viewerOf } from '../../domains/index.ts';
import type { RouteContext } from '../context.ts';
import { DomainEncoder } from './domain-encodings.ts';
import { type Candidate, candidateSet } from './domain-owners.ts';
import { type EncodedHosts, lostText, type OutboundHosts } from './outbound-hosts.ts';

/** The domain of all hosts. */
const ANY = '*';

/** Some virtual hosts of a route configuration. */
export interface WantedHosts extends EncodedHosts {
  /** How many there are at most, without the catch-all. */
  readonly among: number;
  /** Names without which there would be the same virtual hosts: they have none, or names before them have it. */
  readonly spare: readonly string[];
}

/**
 * The virtual hosts of these names (`host:port`), those that Envoy would choose among all for these hosts, and one that
 * has every domain that no other has. Names without a virtual host have none here.
 */
export function wantedHosts(hosts: OutboundHosts, context: RouteContext, names: Iterable<string>): WantedHosts {
  const viewer = viewerOf(hosts.dnsDomain, hosts.onlyWithPort);
  const { owners } = candidateSet(hosts, context, viewer);
  const viewed = owners.for(context.memos, viewer);
  const found = new Set<Candidate>();
  const spare: string[] = [];
  for (const name of names) {
    const before = found.size;
    for (const candidate of owners.named(name)) found.add(candidate);
    const chosen = viewed.chosenFor(name);
    if (chosen !== undefined) found.add(chosen);
    if (found.size === before) spare.push(name);
  }
  const all = viewed.ownerOf(ANY);
  if (all !== undefined) found.add(all);
  const encoder = new DomainEncoder(context, viewer);
  const encoded = [...found].flatMap((candidate) => {
    const domains = viewed.domainsOwnedBy(candidate);
    return domains.length === 0 ? [] : [[candidate.name, encoder.encode(candidate, domains)] as const];
  });
  encoded.sort(([a], [b]) => compareText(a, b));
  return {
    virtualHosts: encoded.map(([, bytes]) => bytes),
    duplicates: viewed.lost().map(lostText),
    takesAll: all !== undefined,
    among: owners.size,
    spare,
  };
}
