/**
 * Connections to unknown destinations: passed through to their original destination, sent to the egress proxy of the
 * Sidecar, or refused. An egress proxy that is not a service of the scope has no cluster, and Envoy closes connections
 * to it: they never bypass it.
 */
import type { Destination } from '../../resources/index.ts';
import { BLACKHOLE_CLUSTER, clusterName, InputCache, PASSTHROUGH_CLUSTER } from '../common/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import { type DestinationTraits, destinationTraits } from './destination-traits.ts';
import type { ProxyCapabilities } from './extensions.ts';
import { tcpFilters } from './tcp-proxy.ts';
import type { Telemetry } from './telemetry/telemetry.ts';

export interface UnknownTraffic {
  readonly cluster: string;
  /** The traits of an egress proxy; empty without one. */
  readonly destinations: readonly DestinationTraits[];
}

const PASSED_THROUGH: UnknownTraffic = { cluster: PASSTHROUGH_CLUSTER, destinations: [] };
const REFUSED: UnknownTraffic = { cluster: BLACKHOLE_CLUSTER, destinations: [] };

interface EgressInputs extends DestinationTraits {
  readonly proxy: Destination;
}

const egressProxies = new InputCache<EgressInputs, UnknownTraffic>('egress proxies', ({ proxy, ...traits }) => {
  return { cluster: egressCluster(proxy), destinations: [traits] };
});

/**
 * The same object each time, for caches.
 * @param port of the listener; 0: the listener of all ports
 */
export function unknownTraffic(
  { memos }: Pick<MeshReader, 'memos'>,
  { capabilities }: ProxyCapabilities,
  scope: ScopeReader,
  port: number,
): UnknownTraffic {
  const { outboundTrafficPolicy, egressProxy: proxy } = scope;
  if (proxy === undefined) return outboundTrafficPolicy === 'ALLOW_ANY' ? PASSED_THROUGH : REFUSED;
  const reader = { at: port, sds: capabilities.sds };
  const traits = destinationTraits(scope, proxy.host, proxy.subset ?? '', portOf(proxy), reader);
  return egressProxies.get(memos, proxy, { proxy, ...traits });
}

/** The network filters for connections to unknown destinations, with statistics under the cluster's name. */
export function unknownFilters(
  telemetry: Telemetry,
  view: ProxyCapabilities & Pick<MeshReader, 'settings'>,
  { cluster, destinations }: UnknownTraffic,
): ReturnType<typeof tcpFilters> {
  const port = { protocol: undefined, settings: view.settings };
  return tcpFilters(telemetry, view, { statPrefix: cluster, clusters: [{ cluster, weight: 1 }], destinations, port });
}

function egressCluster(proxy: Destination): string {
  return clusterName('outbound', portOf(proxy), proxy.subset ?? '', proxy.host);
}

/** Validation requires a port. */
function portOf({ port }: Destination): number {
  return port?.number ?? 0;
}
