/** The transport to workloads of the mesh: mutual TLS to endpoints that accept it, decided endpoint by endpoint. */
import type { ModelSettings, Service, ServicePeers } from '../../model/index.ts';
import { envoy, packAny } from '../../protobuf/index.ts';
import type { ClientTlsSettings, MeshConfig } from '../../resources/index.ts';
import {
  anyWorkload,
  exactName,
  MESH_ALPN,
  meshServerName,
  meshTlsContext,
  type SanMatcher,
  TLS_SOCKET,
  trustDomainsOf,
  workloadsOf,
} from '../common/index.ts';
import { type ClusterTarget, type Discovery, TLS_MODE } from '../endpoints/index.ts';
import { CLUSTER_PEER_EXCHANGE, tcpAlpn } from '../filters/index.ts';
import type { UpstreamHttp } from './upstream-protocol.ts';

const { TlsParameters, UpstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;

type Cluster = envoy.config.cluster.v3.Cluster.Input;
type TransportSocket = envoy.config.core.v3.TransportSocket.Input;
export type Transport = Pick<Cluster, 'filters' | 'metadata' | 'transportSocket' | 'transportSocketMatches'>;

export interface MeshPeering {
  readonly service: Service;
  readonly mesh: MeshConfig;
  readonly settings: ModelSettings;
  /** Whether the view's proxies have mesh certificates. */
  readonly sds: boolean;
  readonly peers: ServicePeers | undefined;
  /** Whether the view's proxies exchange metadata with servers of TCP connections. */
  readonly tellsServers: boolean;
}

const PLAIN: Transport = {};

/** The transport of a cluster whose settings ask for mesh mutual TLS, or have no TLS settings. */
export function meshTransport(
  inputs: MeshPeering,
  target: ClusterTarget,
  discovery: Discovery,
  speaks: UpstreamHttp,
): Transport {
  const transport = secured(inputs, target, discovery, speaks);
  // TCP proxies may lead to any cluster, also to one for HTTP.
  return inputs.tellsServers && transport !== PLAIN ? { ...transport, filters: [CLUSTER_PEER_EXCHANGE] } : transport;
}

function secured(inputs: MeshPeering, target: ClusterTarget, discovery: Discovery, speaks: UpstreamHttp): Transport {
  if (!inputs.sds) return PLAIN;
  const { service, port, policy } = target;
  if (policy.tls !== undefined) return { transportSocket: mutualTls(inputs, target, policy.tls, speaks) };
  // As in Istio: a host outside of the mesh is called as its rule says, whatever labels its endpoints have.
  if (!inputs.mesh.enableAutoMtls || service.meshExternal) return PLAIN;
  const ready = inputs.peers?.ready[port.name];
  if (discovery === 'original') {
    // An original destination has no endpoint metadata: mutual TLS requires that all possible destinations accept it.
    return ready === 'all' ? { transportSocket: mutualTls(inputs, target, undefined, speaks) } : PLAIN;
  }
  // Clusters of the mesh do not change while proxies are added and removed. A cluster that resolves names contains its
  // endpoints anyway, and a cluster without endpoints has no peers.
  if (discovery !== 'eds' && ready === undefined) return PLAIN;
  // Endpoints without a match get the cluster's own transport, which is plain text by default: a second match for them
  // would be a quarter of the message.
  return {
    transportSocketMatches: [
      {
        name: 'tlsMode-mesh',
        match: { fields: { [TLS_MODE.key]: { stringValue: TLS_MODE.mutual } } },
        transportSocket: mutualTls(inputs, target, undefined, speaks),
      },
    ],
  };
}

function mutualTls(
  inputs: MeshPeering,
  { service, port, subset }: ClusterTarget,
  tls: ClientTlsSettings | undefined,
  speaks: UpstreamHttp,
): TransportSocket {
  const { TLSv1_2, TLSv1_3 } = TlsParameters.TlsProtocol;
  const context = {
    commonTlsContext: {
      ...meshTlsContext(meshPeers(inputs, tls), alpnOf(inputs, speaks)),
      // As a client, Envoy uses at most TLS 1.2 by default.
      tlsParams: { tlsMinimumProtocolVersion: TLSv1_2, tlsMaximumProtocolVersion: TLSv1_3 },
    },
    sni: tls?.sni || serverName(port.port, subset, service.hostname),
  };
  return { name: TLS_SOCKET, typedConfig: packAny(UpstreamTlsContext, context) };
}

/** Envoy rejects longer server names. Servers of the mesh do not depend on the name, so it can be omitted. */
const MAX_SERVER_NAME = 255;

function serverName(port: number, subset: string, host: string): string {
  const name = meshServerName(port, subset, host);
  return name.length > MAX_SERVER_NAME ? '' : name;
}

/** Expected peers: from the rule, else the accounts of the service's workloads, else any workload of the mesh. */
export function meshPeers(
  { service, peers, settings, mesh }: Pick<MeshPeering, 'service' | 'peers' | 'settings' | 'mesh'>,
  tls: ClientTlsSettings | undefined,
): SanMatcher[] {
  if (tls?.subjectAltNames !== undefined && tls.subjectAltNames.length > 0) return tls.subjectAltNames.map(exactName);
  const trustDomains = trustDomainsOf(settings, mesh);
  const known = [...workloadsOf(peers?.accounts ?? [], trustDomains), ...service.subjectAltNames.map(exactName)];
  return known.length > 0 ? known : anyWorkload(trustDomains);
}

function alpnOf({ tellsServers }: MeshPeering, speaks: UpstreamHttp): readonly string[] {
  switch (speaks) {
    case 'none':
      return tcpAlpn(tellsServers);
    case 'http1':
      return MESH_ALPN.http1;
    case 'http2':
      return MESH_ALPN.http2;
    case 'client':
      return MESH_ALPN.http;
  }
}
