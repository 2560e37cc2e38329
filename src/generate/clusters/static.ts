/** Clusters that belong to no service. */
import type { envoy } from '../../protobuf/index.ts';
import type { ConnectionPool } from '../../resources/index.ts';
import {
  BLACKHOLE_CLUSTER,
  familiesOf,
  INBOUND_PASSTHROUGH_CLUSTER_IPV4,
  INBOUND_PASSTHROUGH_CLUSTER_IPV6,
  PASSTHROUGH_CLUSTER,
  toDuration,
} from '../common/index.ts';
import type { IpFamily, NodeFamilies } from '../views.ts';
import { circuitBreakers } from './circuit-breakers.ts';
import { protocolOptions } from './upstream-protocol.ts';

/** Every cluster has a name, although the message type makes it optional. */
export type NamedCluster = envoy.config.cluster.v3.Cluster.Input & { readonly name: string };

/** `envoy.config.cluster.v3.Cluster.DiscoveryType` */
export const STATIC = 0;
export const STRICT_DNS = 1;
export const EDS = 3;
export const ORIGINAL_DST = 4;
/** `envoy.config.cluster.v3.Cluster.LbPolicy`: the only choice for original destinations. */
export const CLUSTER_PROVIDED = 6;

/**
 * Source addresses of connections to the application itself. The redirection rules exempt such connections, which would
 * otherwise reach the proxy again.
 */
const INBOUND_SOURCE: Readonly<Record<IpFamily, string>> = { ipv4: '127.0.0.6', ipv6: '::6' };

/**
 * As in newer releases of Istio: servers and firewalls drop idle connections long before Envoy's default of one hour.
 */
const PASSTHROUGH_POOL: ConnectionPool = { http: { idleTimeout: 300_000 } };

export function passthroughCluster(connectTimeoutMs: number): NamedCluster {
  return {
    name: PASSTHROUGH_CLUSTER,
    type: ORIGINAL_DST,
    lbPolicy: CLUSTER_PROVIDED,
    connectTimeout: toDuration(connectTimeoutMs),
    ...circuitBreakers(undefined),
    // Requests keep their protocol: gRPC without TLS (h2c) must stay HTTP/2.
    ...protocolOptions('client', PASSTHROUGH_POOL),
  };
}

export function blackHoleCluster(connectTimeoutMs: number): NamedCluster {
  return emptyCluster(BLACKHOLE_CLUSTER, connectTimeoutMs);
}

/** A cluster without endpoints: traffic to it is refused. */
export function emptyCluster(name: string, connectTimeoutMs: number): NamedCluster {
  return { name, type: STATIC, connectTimeout: toDuration(connectTimeoutMs) };
}

export function inboundPassthroughCluster(family: IpFamily, connectTimeoutMs: number): NamedCluster {
  const name = family === 'ipv6' ? INBOUND_PASSTHROUGH_CLUSTER_IPV6 : INBOUND_PASSTHROUGH_CLUSTER_IPV4;
  return { ...passthroughCluster(connectTimeoutMs), name, upstreamBindConfig: inboundSource(family) };
}

/** On a node with both families, Envoy uses the source address of the destination's family. */
export function inboundSource(families: NodeFamilies): envoy.config.core.v3.BindConfig.Input {
  const [first = 'ipv4', second] = familiesOf({ families });
  const sourceOf = (family: IpFamily) => ({ address: INBOUND_SOURCE[family], portValue: 0 });
  return {
    sourceAddress: sourceOf(first),
    ...(second !== undefined && { extraSourceAddresses: [{ address: sourceOf(second) }] }),
  };
}
