/**
 * The listener that answers captured DNS queries with the names of the mesh and forwards the others to the resolvers of
 * the machine. Envoy's filter speaks UDP only. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/configuration/listeners/udp_filters/dns_filter
 */

import type { Memos } from '../../core/memo.ts';
import { DNS_LISTENER } from '../../core/proxy.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { delimitedLength, writeDelimitedHead } from '../../protobuf/wire/index.ts';
import { DNS_LISTENER_UNIT, joinedResource, loopbackBinds, toDuration } from '../common/index.ts';
import { DNS_FILTER, hasExtension, typedConfig } from '../filters/index.ts';
import { encodedChunks, type Name, namesOf } from '../names/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { GeneratedResource, GenerationFinding, UnitOutput } from '../types.ts';
import type { OutboundView } from '../views.ts';

const { Listener, ListenerFilter } = envoy.config.listener.v3;
const { DnsFilterConfig } = envoy.extensions.filters.udp.dns_filter.v3;
const { CaresDnsResolverConfig } = envoy.extensions.network.dns_resolver.cares.v3;
const { DnsTable } = envoy.data.dns.v3;
const { UDP } = envoy.config.core.v3.SocketAddress.Protocol;

/** The port that queries are redirected to. */
const DNS_PORT = 15013;

/** Maximum number of names: Envoy has one table for a listener, and replaces the listener when a name changes. */
const MAX_NAMES = 10_000;

const ANSWER_TTL_MS = 30_000;
/** The first attempt and one retry complete before clients, which usually wait for 5 s, retry. */
const RESOLVER_TIMEOUT_MS = 2000;
const RETRIES = 1;
/** Queries that wait for a resolver at the same time. */
const MAX_PENDING_LOOKUPS = 1024;

const CARES = 'envoy.network.dns_resolver.cares';
/**
 * The resolvers of resolv.conf. The resolver here, which the message requires, is only used if resolv.conf has none.
 * Clients have already added the search domains of resolv.conf.
 */
const RESOLVERS: envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig.Input = {
  resolvers: [{ socketAddress: { address: '127.0.0.1', portValue: 53 } }],
  useResolversAsFallback: true,
  dnsResolverOptions: { noDefaultSearchDomain: true },
};

/** Fields of Listener, ListenerFilter, Any, DnsFilterConfig and ServerContextConfig, from outside to inside. */
const LISTENER_FILTERS = 9;
const TYPED_CONFIG = 3;
const ANY_TYPE_URL = 1;
const ANY_VALUE = 2;
const SERVER_CONFIG = 2;
const INLINE_DNS_TABLE = 1;

export function dnsListener(snapshot: MeshReader, view: OutboundView, scope: ScopeReader): UnitOutput {
  if (view.dns?.listener !== true) return { resources: [], findings: [] };
  if (!hasExtension(view, DNS_FILTER)) {
    const message = `captured DNS queries are not answered: the proxy has no extension ${DNS_FILTER}`;
    return { resources: [], findings: [finding(message)] };
  }
  const names = namesOf(snapshot, scope.services, { cluster: '', ...view.dns });
  const served = servedNames(names);
  const byFamilies = snapshot.memos
    .weak<readonly Name[], Map<string, GeneratedResource>>('DNS listeners')
    .get(names, () => new Map());
  const resource = byFamilies.get(view.families) ?? buildListener(snapshot.memos, view, served);
  byFamilies.set(view.families, resource);
  return { resources: [resource], findings: names.length === served.length ? [] : [tooMany(names.length)] };
}

function finding(message: string): GenerationFinding {
  return {
    metric: 'ctl_invalid_out_listeners',
    type: 'lds',
    unit: DNS_LISTENER_UNIT,
    message: `${DNS_LISTENER}: ${message}`,
  };
}

function tooMany(count: number): GenerationFinding {
  const message = `Envoy resolves only ${MAX_NAMES} of ${count} names; the machine's resolvers resolve the others`;
  return finding(`${message}; an agent with DNS_AGENT resolves all`);
}

/** The resolvers of the machine know services of the cluster, but not the hosts of ServiceEntries. */
function servedNames(names: readonly Name[]): readonly Name[] {
  if (names.length <= MAX_NAMES) return names;
  const own = names.filter(({ short }) => short === undefined);
  return [...own, ...names.filter(({ short }) => short !== undefined)].slice(0, MAX_NAMES);
}

function buildListener(memos: Memos, view: OutboundView, names: readonly Name[]): GeneratedResource {
  const { bind, extraBind } = loopbackBinds(view);
  const listener = encode(Listener, {
    name: DNS_LISTENER,
    address: udpAddress(bind),
    ...(extraBind !== undefined && { additionalAddresses: [{ address: udpAddress(extraBind) }] }),
    trafficDirection: envoy.config.core.v3.TrafficDirection.OUTBOUND,
    udpListenerConfig: {},
  });
  const table = [
    encode(DnsTable, { externalRetryCount: RETRIES }),
    ...encodedChunks(memos, 'chunks of DNS listeners', names, encodeDomain),
  ];
  const clientConfig = {
    resolverTimeout: toDuration(RESOLVER_TIMEOUT_MS),
    maxPendingLookups: MAX_PENDING_LOOKUPS,
    typedDnsResolverConfig: typedConfig(CARES, CaresDnsResolverConfig, RESOLVERS),
  };
  const config = [
    encode(DnsFilterConfig, { statPrefix: DNS_LISTENER, clientConfig }),
    ...inField(SERVER_CONFIG, inField(INLINE_DNS_TABLE, table)),
  ];
  const typeUrl = new TextEncoder().encode(DnsFilterConfig.getTypeUrl());
  const any = [...inField(ANY_TYPE_URL, [typeUrl]), ...inField(ANY_VALUE, config)];
  const filter = [encode(ListenerFilter, { name: DNS_FILTER }), ...inField(TYPED_CONFIG, any)];
  // A message is the concatenation of its fields, in any order.
  return joinedResource(DNS_LISTENER, [listener, ...inField(LISTENER_FILTERS, filter)], []);
}

function udpAddress(address: string): envoy.config.core.v3.Address.Input {
  return { socketAddress: { protocol: UDP, address, portValue: DNS_PORT } };
}

/** An entry of `virtual_domains`. */
function encodeDomain({ host, ips }: Name): Uint8Array {
  const endpoint = { addressList: { address: ips } };
  return encode(DnsTable, { virtualDomains: [{ name: host, endpoint, answerTtl: toDuration(ANSWER_TTL_MS) }] });
}

function inField(field: number, content: readonly Uint8Array[]): readonly Uint8Array[] {
  const length = content.reduce((sum, piece) => sum + piece.length, 0);
  const head = new Uint8Array(delimitedLength(field, length) - length);
  writeDelimitedHead(head, 0, field, length);
  return [head, ...content];
}
