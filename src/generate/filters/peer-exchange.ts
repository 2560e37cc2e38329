/**
 * Filters of Istio's own builds of Envoy: peers tell each other who they are at the start of a TCP connection, and
 * requests announce their protocol to the server. Other Envoys do without them: the identity of a peer is in its
 * certificate, and clusters announce the protocol of their ports (`MESH_ALPN`).
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

/** Whether clients tell servers who they are: with the filter of clusters. */
export function tellsServers(settings: Settings, view: ProxyCapabilities): boolean {
  return settings.tcpMetadataExchange && listsExtension(view, PEER_EXCHANGE_UPSTREAM_FILTER);
}

/** Whether servers tell clients who they are. */
export function tellsClients(settings: Settings, view: ProxyCapabilities): boolean {
  return settings.tcpMetadataExchange && listsExtension(view, PEER_EXCHANGE_FILTER);
}

/** Whether requests announce their protocol with a filter. */
export function announcesByFilter(settings: Settings, view: ProxyCapabilities): boolean {
  return settings.tcpMetadataExchange && listsExtension(view, ALPN_FILTER);
}

/** Protocol names of TCP connections to servers: with the first one the peers begin with messages about themselves. */
export function tcpAlpn(tells: boolean): readonly string[] {
  return tells ? [PEER_EXCHANGE, ...MESH_ALPN.tcp] : MESH_ALPN.tcp;
}

/** The filter before all others of a server's connections. It acts where both sides have agreed on the exchange. */
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

/** The HTTP filter that replaces the protocol names of the cluster, except where its metadata forbids it. */
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

/** A cluster whose servers are not of the mesh: its protocol names stay. */
export const KEEPS_ALPN = {
  metadata: { filterMetadata: { istio: { fields: { alpn_override: { stringValue: 'false' } } } } },
};

function istioFilter(name: string, type: string, value: Struct): TypedConfig {
  return typedConfig(name, xds.type.v3.TypedStruct, { typeUrl: `type.googleapis.com/${type}`, value });
}
