/** The servers of a proxy's gateways, by the kind of listener they need. */
import { SDS_CLUSTER_METADATA } from '../../core/proxy.ts';
import { type Gateway, type Protocol, parseProtocol } from '../../model/index.ts';
import { type GatewayServer, type ResourceKey, resourceKey, type ServerTlsSettings } from '../../resources/index.ts';
import { gatewayHttpRouteName, gatewayHttpsRouteName, isIpAddress, wildcardBinds } from '../common/index.ts';
import { type ServerHost, serverHost } from '../domains/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { GatewayView } from '../views.ts';

/**
 * Kinds of servers:
 *
 * - `http`: plain HTTP.
 * - `https`: TLS termination, then HTTP.
 * - `tls`: TLS termination, then TCP.
 * - `passthrough`: TLS to a destination that is chosen by server name.
 * - `auto-passthrough`: mutual TLS of the mesh to the service in its server name.
 * - `tcp`: plain TCP.
 */
export type ServerKind = 'http' | 'https' | 'tls' | 'passthrough' | 'auto-passthrough' | 'tcp';

export interface ServerPlan {
  readonly kind: ServerKind;
  /** `namespace/name` of the Gateway. */
  readonly gateway: string;
  /** As written, for messages. */
  readonly label: string;
  readonly port: number;
  readonly portName: string;
  readonly protocol: Protocol;
  readonly bind: string;
  /** The address of the other family, for a server without an address on a machine with both families. */
  readonly extraBind: string | undefined;
  readonly hosts: readonly ServerHost[];
  readonly httpsRedirect: boolean;
  /**
   * Whether requests for its hosts are refused on connections to other servers of the port: see `isolated` of the
   * Gateway.
   */
  readonly isolated: boolean;
  readonly grpcWeb: boolean;
  /** TLS settings of kinds `https` and `tls`. */
  readonly tls: ServerTlsSettings | undefined;
  /** Route configuration of kinds `http` and `https`, else ''. */
  readonly routeName: string;
}

export interface RejectedServer {
  readonly port: number;
  readonly message: string;
}

export interface GatewayServers {
  /** In precedence order: by gateway, then as written. */
  readonly servers: readonly ServerPlan[];
  readonly rejected: readonly RejectedServer[];
}

const HTTP_PROTOCOLS: ReadonlySet<string> = new Set(['HTTP', 'HTTP2', 'GRPC', 'GRPC-WEB']);
const TCP_PROTOCOLS: ReadonlySet<string> = new Set(['TCP', 'MONGO', 'REDIS', 'MYSQL', 'THRIFT']);

export function gatewayServers(snapshot: MeshReader, view: GatewayView): GatewayServers {
  const gateways = snapshot.resources('Gateway');
  const servers: ServerPlan[] = [];
  const rejected: RejectedServer[] = [];
  for (const name of view.gateways) {
    const gateway = gateways.get(gatewayKey(name));
    for (const server of gateway?.content.servers ?? []) {
      if (gateway === undefined) continue;
      const planned = planServer(gateway, server, view);
      if ('kind' in planned) servers.push(planned);
      else rejected.push(planned);
    }
  }
  return { servers, rejected };
}

export function gatewayKey(gateway: string): ResourceKey {
  const slash = gateway.indexOf('/');
  return resourceKey('Gateway', gateway.slice(0, slash), gateway.slice(slash + 1));
}

/** Whether some server of a Gateway may pass mutual TLS through by server name. */
export function passesOn(gateway: Gateway | undefined): boolean {
  return gateway?.content.servers?.some(({ tls }) => tls?.mode === 'AUTO_PASSTHROUGH') === true;
}

function planServer(gateway: Gateway, server: GatewayServer, view: GatewayView): ServerPlan | RejectedServer {
  const { namespace, name } = gateway.meta;
  const port = server.port.number ?? 0;
  const portName = server.port.name ?? '';
  const label = `Gateway ${namespace}/${name}, server ${portName === '' ? port : portName}`;
  const reject = (reason: string) => ({ port, message: `${label}: ${reason}` });
  const { bind, extraBind } = server.bind ? { bind: server.bind, extraBind: undefined } : wildcardBinds(view);
  if (port < 1 || port > 65535) return reject('expected a port number from 1 to 65535');
  if (!isIpAddress(bind)) return reject(`cannot listen on ${bind}: expected an IP address`);
  const kind = serverKind(server, view);
  if (typeof kind !== 'string') return reject(kind.reason);
  // Listeners of one port but different addresses are separate, and so are their routes.
  const suffix = server.bind === undefined || server.bind === '' ? '' : `.${bind}`;
  const routeName =
    kind === 'http'
      ? `${gatewayHttpRouteName(port)}${suffix}`
      : kind === 'https'
        ? gatewayHttpsRouteName(port, portName, name, namespace)
        : '';
  const tls = kind === 'https' || kind === 'tls' ? server.tls : undefined;
  return {
    kind,
    gateway: `${namespace}/${name}`,
    label,
    portName,
    protocol: parseProtocol(server.port.protocol),
    port,
    bind,
    extraBind,
    hosts: server.hosts.map((entry) => serverHost(entry, namespace)),
    isolated: gateway.content.isolated === true,
    httpsRedirect: server.tls?.httpsRedirect === true,
    grpcWeb: server.port.protocol?.toUpperCase() === 'GRPC-WEB',
    tls,
    routeName,
  };
}

/** The kind for a server's protocol and TLS mode. An impossible combination is never served in a weaker way. */
function serverKind({ port, tls }: GatewayServer, view: GatewayView): ServerKind | { readonly reason: string } {
  const protocol = (port.protocol ?? 'TCP').toUpperCase();
  const mode = tls?.mode ?? 'PASSTHROUGH';
  if (HTTP_PROTOCOLS.has(protocol)) {
    if (mode === 'PASSTHROUGH') return 'http';
    return { reason: `TLS mode ${mode} on protocol ${protocol}: expected protocol HTTPS` };
  }
  if (TCP_PROTOCOLS.has(protocol)) {
    if (tls === undefined || mode === 'PASSTHROUGH') return 'tcp';
    return { reason: `TLS mode ${mode} on protocol ${protocol}: expected protocol TLS` };
  }
  if (protocol !== 'HTTPS' && protocol !== 'TLS') return { reason: `protocol ${protocol} is not served` };
  if (tls === undefined) return { reason: `protocol ${protocol} without TLS settings` };
  if (mode === 'PASSTHROUGH') return 'passthrough';
  if (mode === 'AUTO_PASSTHROUGH') return 'auto-passthrough';
  const problem = terminationProblem(tls, view);
  if (problem !== undefined) return { reason: problem };
  return protocol === 'HTTPS' ? 'https' : 'tls';
}

/** Why the server cannot terminate TLS; undefined when it can. */
function terminationProblem(tls: ServerTlsSettings, view: GatewayView): string | undefined {
  const mode = tls.mode;
  if (tls.closed !== undefined) return undefined;
  if (mode === 'MESH_MUTUAL') {
    if (view.capabilities.sds) return undefined;
    const reported = `node metadata ${SDS_CLUSTER_METADATA}`;
    return `TLS mode ${mode} needs certificates of the mesh, and the proxy reports no way to get them (${reported})`;
  }
  const named = tls.credentialName || tls.credentialNames?.length;
  const authorizes = named || tls.caCertificates || tls.caCertCredentialName || tls.clientAuthorities !== undefined;
  const pairs = tls.tlsCertificates?.length ? tls.tlsCertificates : [tls];
  if (
    !named &&
    !tls.keyPairs?.length &&
    pairs.some(({ serverCertificate, privateKey }) => !serverCertificate || !privateKey)
  ) {
    return `TLS mode ${mode} needs credentialName, or serverCertificate and privateKey`;
  }
  if ((mode === 'MUTUAL' || mode === 'OPTIONAL_MUTUAL') && !authorizes) {
    return `TLS mode ${mode} needs caCertificates or caCertCredentialName`;
  }
  return undefined;
}
