/**
 * Filters of Istio's builds of Envoy: peers exchange metadata at the start of a TCP connection, and requests announce
 * their protocol to the server. Other Envoys do not need them: the identity of a peer is in its certificate, and
 * clusters announce the protocol of their ports (`MESH_ALPN`).
 */
import type { ModelSettings } from '../../model/index.ts';
import { xds } from '../../protobuf/index.ts';
import { MESH_ALPN, PEER_EXCHANGE } from '../common/index.ts';
import {
  ALPN_FILTER,
  listsExtension,
  PEER_EXCHANGE_FILTER,
  PEER_EXCHANGE_UPSTREAM_FILTER,
  type ProxyCapabilities,
  type TypedConfig,
  typedConfig,
} from './extensions.ts';

type Settings = Pick<ModelSettings, 'tcpMetadataExchange'>;
type Struct = NonNullable<xds.type.v3.TypedStruct.Input['value']>;

/** Whether clients send metadata to servers, with the filter of clusters. */
export function tellsServers(settings: Settings, view: ProxyCapabilities): boolean {
  return settings.tcpMetadataExchange && listsExtension(view, PEER_EXCHANGE_UPSTREAM_FILTER);
}

/** Whether servers send metadata to clients. */
export function tellsClients(settings: Settings, view: ProxyCapabilities): boolean {
  return settings.tcpMetadataExchange && listsExtension(view, PEER_EXCHANGE_FILTER);
}

/** Whether requests announce their protocol with a filter. */
export function announcesByFilter(settings: Settings, view: ProxyCapabilities): boolean {
  return settings.tcpMetadataExchange && listsExtension(view, ALPN_FILTER);
}

/** ALPN protocols of TCP connections to servers: with the first one, the peers exchange metadata. */
export function tcpAlpn(tells: boolean): readonly string[] {
  return tells ? [PEER_EXCHANGE, ...MESH_ALPN.tcp] : MESH_ALPN.tcp;
}

/** The first filter of a server's connections. It has an effect if both sides have negotiated the exchange. */
export function serverPeerExchange(settings: Settings, view: ProxyCapabilities): TypedConfig[] {
  return tellsClients(settings, view) ? [peerExchange(PEER_EXCHANGE_FILTER)] : [];
}

/** The same for the connections of a cluster. */
export const CLUSTER_PEER_EXCHANGE: TypedConfig = peerExchange(PEER_EXCHANGE_UPSTREAM_FILTER);

/** The extensions are not part of Envoy's own API. */
function peerExchange(name: string): TypedConfig {
  return istioFilter(name, 'envoy.tcp.metadataexchange.config.MetadataExchange', {
    fields: { protocol: { stringValue: PEER_EXCHANGE } },
  });
}

/** By the version of a request to the server; as in Istio 1.7. */
const BY_VERSION = { HTTP10: ['istio-http/1.0', 'istio'], HTTP11: MESH_ALPN.http1, HTTP2: MESH_ALPN.http2 } as const;

/** The HTTP filter that replaces the ALPN protocols of the cluster, unless its metadata forbids it. */
export function alpnFilter(): TypedConfig {
  const overrides = Object.entries(BY_VERSION).map(([version, names]) => ({
    structValue: {
      fields: {
        upstream_protocol: { stringValue: version },
        alpn_override: { listValue: { values: names.map((name) => ({ stringValue: name })) } },
      },
    },
  }));
  return istioFilter(ALPN_FILTER, 'istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig', {
    fields: { alpn_override: { listValue: { values: overrides } } },
  });
}

/** Metadata of a cluster with external servers: its ALPN protocols are kept. */
export const KEEPS_ALPN = {
  metadata: { filterMetadata: { istio: { fields: { alpn_override: { stringValue: 'false' } } } } },
};

function istioFilter(name: string, type: string, value: Struct): TypedConfig {
  return typedConfig(name, xds.type.v3.TypedStruct, { typeUrl: `type.googleapis.com/${type}`, value });
}
