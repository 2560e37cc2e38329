/** How a cluster speaks to workloads of the mesh: mutual TLS where they take it, found out endpoint by endpoint. */
import type { ModelSettings, Service, ServicePeers } from '../../model/types.ts';
import { envoy, packAny } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/mesh-config.ts';
import type { ClientTlsSettings } from '../../resources/schemas.ts';
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
import type { UpstreamHttp } from './upstream-protocol.ts';

const { TlsParameters, UpstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;

type Cluster = envoy.config.cluster.v3.Cluster.Input;
type TransportSocket = envoy.config.core.v3.TransportSocket.Input;
type Transport = Pick<Cluster, 'transportSocket' | 'transportSocketMatches'>;

/** What decides how a service is spoken to within the mesh. */
export interface MeshPeering {
  readonly service: Service;
  readonly mesh: MeshConfig;
  readonly settings: ModelSettings;
  /** Whether the view's proxies have certificates of the mesh; and if so, whom they meet behind the service. */
  readonly sds: boolean;
  readonly peers: ServicePeers | undefined;
}

const PLAIN: Transport = {};

/** The transport of a cluster whose settings say mesh mutual TLS, or nothing at all. */
export function meshTransport(
  inputs: MeshPeering,
  target: ClusterTarget,
  discovery: Discovery,
  speaks: UpstreamHttp,
): Transport {
  // Without certificates there is only plain text.
  if (!inputs.sds) return PLAIN;
  const { service, port, policy } = target;
  if (policy.tls !== undefined) return { transportSocket: mutualTls(inputs, target, policy.tls, speaks) };
  if (!inputs.mesh.enableAutoMtls) return PLAIN;
  const ready = inputs.peers?.ready[port.name];
  if (discovery === 'original') {
    // Where a connection was going is no endpoint that could say what it takes: all that it may lead to must.
    return ready === 'all' ? { transportSocket: mutualTls(inputs, target, undefined, speaks) } : PLAIN;
  }
  // Inside the mesh the cluster stays the same while proxies come and go; one that resolves names carries its endpoints
  // anyway.
  if ((service.meshExternal || discovery === 'dns') && ready === undefined) return PLAIN;
  // What no match is for gets the cluster's own transport, which is plain text unless it says something else: a second
  // match that said so would be a quarter of the message.
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
      ...meshTlsContext(peersOf(inputs, tls), alpnOf(speaks)),
      // As a client Envoy would stop at 1.2 by itself.
      tlsParams: { tlsMinimumProtocolVersion: TLSv1_2, tlsMaximumProtocolVersion: TLSv1_3 },
    },
    sni: tls?.sni || serverName(port.port, subset, service.hostname),
  };
  return { name: TLS_SOCKET, typedConfig: packAny(UpstreamTlsContext, context) };
}

/** Envoy refuses longer ones. Servers of the mesh do not choose by name, so that none is as good. */
const MAX_SERVER_NAME = 255;

function serverName(port: number, subset: string, host: string): string {
  const name = meshServerName(port, subset, host);
  return name.length > MAX_SERVER_NAME ? '' : name;
}

/** Whom to expect: as the rule says, else the accounts of the service's workloads, else any workload of the mesh. */
function peersOf({ service, peers, settings, mesh }: MeshPeering, tls: ClientTlsSettings | undefined): SanMatcher[] {
  if (tls?.subjectAltNames !== undefined && tls.subjectAltNames.length > 0) return tls.subjectAltNames.map(exactName);
  const trustDomains = trustDomainsOf(settings, mesh);
  const known = [...workloadsOf(peers?.accounts ?? [], trustDomains), ...service.subjectAltNames.map(exactName)];
  return known.length > 0 ? known : anyWorkload(trustDomains);
}

function alpnOf(speaks: UpstreamHttp): readonly string[] {
  switch (speaks) {
    case 'none':
      return MESH_ALPN.tcp;
    case 'http1':
      return MESH_ALPN.http1;
    case 'http2':
      return MESH_ALPN.http2;
    case 'client':
      return MESH_ALPN.http;
  }
}
