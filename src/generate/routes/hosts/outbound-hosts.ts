/** The virtual hosts of one sidecar route configuration: those of `domain-owners.ts`, then the catch-all. */
import { compareText, type Scope } from '../../../model/index.ts';
import type { ConsistentHash, Destination } from '../../../resources/index.ts';
import { InputCache, PASSTHROUGH_CLUSTER } from '../../common/index.ts';
import { isDisjoint, type LostDomain, settleCandidates, takesAll, viewerOf } from '../../domains/index.ts';
import type { ServicePortEntry } from '../../indexes/index.ts';
import { DEFAULT_HTTP_PORT } from '../../reads/index.ts';
import { timeoutFields } from '../actions/action.ts';
import { hashPolicy } from '../actions/hash-policy.ts';
import type { RouteContext } from '../context.ts';
import { destinationCluster, destinationPort } from '../destination.ts';
import { ANY_REQUEST } from '../match.ts';
import type { Route } from '../messages.ts';
import { encodeVirtualHost } from '../route-configuration.ts';
import { DomainEncoder } from './domain-encodings.ts';
import { type Candidate, type CandidateSources, candidateSet, toCandidate } from './domain-owners.ts';
import { virtualHost } from './virtual-host.ts';

export interface OutboundHosts extends CandidateSources {
  readonly dnsDomain: string;
  /** Set if clients always name the port with the host. */
  readonly onlyWithPort?: true;
}

export interface EncodedHosts {
  /** Pieces of the route configuration, sorted by name, without the catch-all. */
  readonly virtualHosts: readonly Uint8Array[];
  /** One line for each domain with two candidates. */
  readonly duplicates: readonly string[];
  /** Whether some virtual host has every domain that no other has. */
  readonly takesAll: boolean;
}

const NO_DUPLICATES: readonly string[] = [];
const ANY_DOMAIN: readonly string[] = ['*'];

/** The virtual hosts of a port that all its services share. */
export function sharedHosts(hosts: OutboundHosts, context: RouteContext): EncodedHosts {
  const viewer = viewerOf(hosts.dnsDomain, hosts.onlyWithPort);
  const set = candidateSet(hosts, context, viewer);
  const encoder = new DomainEncoder(context, viewer);
  if (isDisjoint(context.memos, set, viewer)) {
    return { virtualHosts: encoder.encodeAll(set), duplicates: NO_DUPLICATES, takesAll: takesAll(set) };
  }
  const settled = settleCandidates(context.memos, set.candidates, set, viewer);
  const encoded = settled.owned.map(
    ([candidate, domains]) => [candidate.name, encoder.encode(candidate, domains)] as const,
  );
  encoded.sort(([a], [b]) => compareText(a, b));
  return {
    virtualHosts: encoded.map(([, bytes]) => bytes),
    duplicates: settled.lost.map(lostText),
    takesAll: settled.takesAll,
  };
}

const NO_ENTRIES: readonly ServicePortEntry[] = [];

/**
 * The virtual hosts of a listener that is an HTTP proxy for its clients: those of all ports. Hosts without a port
 * belong to the default port, for which virtual services may also have hosts that are not services.
 */
export function proxiedHosts(
  hosts: OutboundHosts,
  byPort: ReadonlyMap<number, readonly ServicePortEntry[]>,
  contextAt: (port: number) => RouteContext,
): EncodedHosts {
  const ports = new Map([[DEFAULT_HTTP_PORT, NO_ENTRIES], ...byPort]);
  const all = [...ports].map(([port, entries]) => {
    const onlyWithPort = port === DEFAULT_HTTP_PORT ? {} : ({ onlyWithPort: true } as const);
    return sharedHosts({ ...hosts, entries, ...onlyWithPort }, contextAt(port));
  });
  return {
    virtualHosts: all.flatMap(({ virtualHosts }) => virtualHosts),
    duplicates: all.flatMap(({ duplicates }) => duplicates),
    takesAll: all.some(({ takesAll: takes }) => takes),
  };
}

/** The single virtual host of a service with its own listener, for any `Host` header. */
export function singleHost(hosts: OutboundHosts, host: string, context: RouteContext): Uint8Array | undefined {
  const viewer = viewerOf(hosts.dnsDomain);
  const candidate = toCandidate(hosts, host, context, viewer);
  return candidate === undefined ? undefined : new DomainEncoder(context, viewer).encode(candidate, ANY_DOMAIN);
}

/** One line for a domain with two candidates. */
export function lostText({ domain, candidate, owner }: LostDomain<Candidate>): string {
  return `${ownerText(candidate.owner)}: domain ${domain} is already taken by ${ownerText(owner.owner)}`;
}

function ownerText(owner: Candidate['owner']): string {
  return 'hosts' in owner ? `VirtualService ${owner.namespace}/${owner.name}` : `service ${owner.key}`;
}

type Policy = Pick<Scope, 'outboundTrafficPolicy' | 'egressProxy'>;

const PASSED_THROUGH = encodedCatchAll('allow_any', { route: { cluster: PASSTHROUGH_CLUSTER, ...timeoutFields(0) } });
const REFUSED = encodedCatchAll('block_all', { directResponse: { status: 502 } });

interface EgressInputs {
  readonly cluster: string;
  readonly hash: ConsistentHash | undefined;
}

const egressHosts = new InputCache<EgressInputs, Uint8Array>('hosts of egress proxies', ({ cluster, hash }) => {
  const policy = hash && hashPolicy(hash);
  const fields = { cluster, ...timeoutFields(0), ...(policy !== undefined && { hashPolicy: [policy] }) };
  return encodedCatchAll('allow_any', { route: fields });
});

/**
 * The catch-all for requests to unknown hosts: forwards them to their original destination or to the egress proxy, or
 * refuses them with 502, so that the reason is visible. The same object each time.
 */
export function catchAllHost({ outboundTrafficPolicy, egressProxy }: Policy, context: RouteContext): Uint8Array {
  if (egressProxy !== undefined) return toEgressProxy(egressProxy, context);
  return outboundTrafficPolicy === 'ALLOW_ANY' ? PASSED_THROUGH : REFUSED;
}

/** Envoy returns HTTP 503 if the egress proxy has no cluster: requests never bypass it. */
function toEgressProxy(proxy: Destination, context: RouteContext): Uint8Array {
  const hash = context.lookups.consistentHash(proxy.host, proxy.subset ?? '', destinationPort(proxy, context));
  return egressHosts.get(context.memos, proxy, { cluster: destinationCluster(proxy, context), hash });
}

function encodedCatchAll(name: string, action: Pick<Route, 'route' | 'directResponse'>): Uint8Array {
  return encodeVirtualHost(virtualHost(name, ['*'], [{ name, match: ANY_REQUEST, ...action }]));
}
