/**
 * What the filter chains of a gateway's port match: TLS server names, and addresses of clients. Each server name and
 * each range of addresses belongs to the first chain that has it: Envoy refuses a listener if two chains have the same
 * match.
 */
import { cidrRanges, RangeIndex } from '../common/index.ts';
import type { FilterChain } from '../filters/index.ts';

/** A chain with what it matches, before overlapping matches are removed. */
export interface MatchedChain {
  /** `*` means any name or none. */
  readonly names: readonly string[];
  /** Ranges of the addresses of clients; empty: all clients. */
  readonly sources: readonly string[];
  readonly label: string;
  readonly chain: FilterChain;
  readonly routeName: string;
}

export interface DistinctChains {
  readonly chains: readonly FilterChain[];
  readonly refs: readonly string[];
  readonly complaints: readonly string[];
}

/** The chains that have a server name so far. */
interface Owners {
  /** The chain for all clients that no other chain matches. */
  all: string | undefined;
  /** Ranges of clients with their own chains; undefined: none. */
  sources: RangeIndex | undefined;
  /** The server of the chains for some clients. */
  label: string;
}

/**
 * Removes what earlier chains match. Envoy only supports wildcards for whole labels (`*.example.com`). It looks for the
 * server name first and then for the client's address, and does not fall back to a wider name
 * (https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/listener/v3/listener_components.proto, FilterChainMatch),
 * so a name with chains for some clients gets the chain of the server's wider name, too. The chain of another server is
 * not repeated: it may be less strict with clients.
 */
export function distinctChains(all: readonly MatchedChain[]): DistinctChains {
  const byName = new Map<string, Owners>();
  const complaints: string[] = [];
  const chains: FilterChain[] = [];
  const refs = new Set<string>();
  const add = (chain: FilterChain, names: readonly string[], sources: readonly string[]): void => {
    if (names.length > 0) chains.push(matching(chain, names, sources));
  };
  for (const { names, sources, label, chain, routeName } of all) {
    const before = chains.length;
    const free = freeNames(names, label, byName, complaints);
    if (sources.length === 0) {
      for (const name of free) ownersOf(byName, name).all = label;
      add(chain, free, []);
    }
    for (const { ranges, names: own } of freeSources(sources, free, label, byName)) add(chain, own, ranges);
    if (chains.length > before && routeName !== '') refs.add(routeName);
  }
  for (const [name, { all: owner, sources, label }] of byName) {
    const wider = owner === undefined && sources !== undefined ? widerChain(all, name, label) : undefined;
    if (wider !== undefined) add(wider.chain, [name], []);
  }
  return { chains, refs: [...refs], complaints };
}

function ownersOf(byName: Map<string, Owners>, name: string): Owners {
  const owners = byName.get(name) ?? { all: undefined, sources: undefined, label: '' };
  byName.set(name, owners);
  return owners;
}

/** The names without a chain for all clients. A chain that matches every name needs no other names. */
function freeNames(
  names: readonly string[],
  label: string,
  byName: ReadonlyMap<string, Owners>,
  complaints: string[],
): readonly string[] {
  const wanted = names.includes('*') ? ['*'] : [...new Set(names)];
  return wanted.filter((name) => {
    const owner = byName.get(name)?.all;
    if (name.startsWith('*') && name !== '*' && !name.startsWith('*.'))
      complaints.push(`${label}: TLS server name ${name} is not a whole-label wildcard`);
    else if (owner !== undefined) complaints.push(`${label}: TLS server name ${name} is taken by ${owner}`);
    else return true;
    return false;
  });
}

/**
 * The ranges that are not inside those of earlier chains, by the names for which they are free. Envoy takes the
 * narrowest range, so a range inside of an earlier one would take precedence.
 */
function freeSources(
  sources: readonly string[],
  names: readonly string[],
  label: string,
  byName: Map<string, Owners>,
): readonly { readonly ranges: readonly string[]; readonly names: readonly string[] }[] {
  const groups = new Map<string, { ranges: string[]; names: readonly string[] }>();
  for (const range of sources) {
    const free = names.filter((name) => byName.get(name)?.sources?.around(range) === undefined);
    for (const name of free) {
      const owners = ownersOf(byName, name);
      if (owners.sources === undefined) owners.label = label;
      owners.sources ??= new RangeIndex();
      owners.sources.add(range);
    }
    const key = free.join(' ');
    const group = groups.get(key) ?? { ranges: [], names: free };
    groups.set(key, group);
    group.ranges.push(range);
  }
  return [...groups.values()];
}

/** The first chain of a server for all clients that matches the name. */
function widerChain(all: readonly MatchedChain[], name: string, of: string): MatchedChain | undefined {
  const covers = (wide: string) => wide === '*' || (wide.startsWith('*.') && isBelow(name, wide));
  return all.find(({ label, sources, names }) => label === of && sources.length === 0 && names.some(covers));
}

/** Whether a server name, or all that match its wildcard, are below a wildcard. */
function isBelow(name: string, wildcard: string): boolean {
  return name.replace(/^\*/, '').endsWith(wildcard.slice(1)) && name.length > wildcard.length - 1;
}

function matching(chain: FilterChain, names: readonly string[], sources: readonly string[]): FilterChain {
  if (names[0] === '*' && sources.length === 0) return chain;
  return {
    ...chain,
    filterChainMatch: {
      ...chain.filterChainMatch,
      ...(names[0] !== '*' && { serverNames: names }),
      ...(sources.length > 0 && { sourcePrefixRanges: cidrRanges(sources) }),
    },
  };
}
