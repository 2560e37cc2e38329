/**
 * The ports on which a sidecar accepts connections for its application: those of the workload's services, or of a
 * Sidecar's ingress listeners, which replace them.
 */
import { type Protocol, parseProtocol, type Scope } from '../../model/index.ts';
import type { ConnectionPool, ServerTlsSettings, SidecarIngress } from '../../resources/index.ts';
import { inboundClusterName, inboundRouteName, listenerName, loopbackBinds } from '../common/index.ts';
import { type ProtocolKind, protocolKind, sniffs } from '../filters/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { InboundView, OutboundView } from '../views.ts';
import { socketPath } from './bind-addresses.ts';

export interface InboundPortPlan {
  /** Destination port of the connections. */
  readonly port: number;
  readonly kind: ProtocolKind;
  readonly protocol: Protocol;
  /** Whether it is declared as gRPC or gRPC-Web. */
  readonly grpc: boolean;
  readonly grpcWeb: boolean;
  readonly cluster: string;
  readonly routeName: string;
  /** Service port, for names of generated resources. */
  readonly servicePort: number;
  readonly hostname: string;
  /** Addresses with separate listeners; empty if redirected connections arrive at the shared listener. */
  readonly binds: readonly string[];
  /** TLS that the proxy terminates for callers outside the mesh, instead of accepting plain text. */
  readonly tls: ServerTlsSettings | undefined;
  /** The Sidecar's settings for connections to the application. */
  readonly connections: ConnectionPool['tcp'];
}

export interface InboundPlan {
  readonly ports: readonly InboundPortPlan[];
  /** Port → services whose protocol differs from that of the port. */
  readonly conflicts: ReadonlyMap<number, readonly string[]>;
}

export function inboundPlan(snapshot: MeshReader, view: InboundView, scope: ScopeReader): InboundPlan {
  return scope.ingress === undefined
    ? fromServices(snapshot, view, scope)
    : fromIngress(snapshot, view, scope, scope.ingress);
}

/**
 * The addresses at which ports of services are bound without redirection. Loopback addresses are excluded: the
 * application listens there, and the proxy would connect to itself. A workload that is registered with a loopback
 * address accepts no connections through its proxy.
 */
function ownBinds(view: InboundView): readonly string[] {
  if (view.interception !== 'NONE') return [];
  const { bind, extraBind } = loopbackBinds(view);
  return view.addresses.filter((address) => address !== bind && address !== extraBind);
}

/** Several services may share a port of the application; the first decides the protocol. */
function fromServices(snapshot: MeshReader, view: InboundView, scope: ScopeReader): InboundPlan {
  const sniff = sniffs(snapshot.settings, 'sniffInbound', view);
  const ports = new Map<number, InboundPortPlan>();
  const conflicts = new Map<number, string[]>();
  const binds = ownBinds(view);
  for (const { targetPort, servicePort, protocol, hostname } of view.ports) {
    if (protocol === 'UDP') continue;
    const kind = protocolKind(protocol, sniff);
    const known = ports.get(targetPort);
    if (known === undefined) {
      ports.set(targetPort, {
        port: targetPort,
        kind,
        protocol,
        grpc: isGrpc(protocol),
        grpcWeb: protocol === 'GRPC-Web',
        cluster: inboundClusterName(targetPort),
        routeName: inboundRouteName(servicePort),
        servicePort,
        hostname,
        binds,
        tls: undefined,
        connections: scope.inboundConnectionPool?.tcp,
      });
    } else if (known.kind !== kind) {
      const other = `${known.kind} of ${known.hostname}`;
      const message = `${hostname}: port ${targetPort} is ${other}, and cannot be ${kind} too`;
      conflicts.set(targetPort, [...(conflicts.get(targetPort) ?? []), message]);
    }
  }
  return { ports: [...ports.values()].sort((a, b) => a.port - b.port), conflicts };
}

function isGrpc(protocol: Protocol): boolean {
  return protocol === 'GRPC' || protocol === 'GRPC-Web';
}

function fromIngress(
  snapshot: MeshReader,
  view: InboundView,
  { namespace, inboundConnectionPool }: ScopeReader,
  ingress: NonNullable<Scope['ingress']>,
): InboundPlan {
  const sniff = sniffs(snapshot.settings, 'sniffInbound', view);
  const ports = new Map<number, InboundPortPlan>();
  for (const listener of ingress) {
    const { port, bind, captureMode, tls, connectionPool = inboundConnectionPool } = listener;
    if (port.number === undefined || ports.has(port.number)) continue;
    const protocol = ingressProtocol(listener);
    const bound = bindsIngress(captureMode, view);
    const own = bind === undefined || bind === '' ? view.addresses : [socketPath(bind) ?? bind];
    ports.set(port.number, {
      port: port.number,
      kind: protocolKind(protocol, sniff),
      protocol,
      grpc: isGrpc(protocol),
      grpcWeb: protocol === 'GRPC-Web',
      cluster: inboundClusterName(port.number),
      routeName: inboundRouteName(port.number),
      servicePort: port.number,
      hostname: `sidecar.${namespace}`,
      binds: bound ? own : [],
      tls,
      connections: connectionPool?.tcp,
    });
  }
  return { ports: [...ports.values()].sort((a, b) => a.port - b.port), conflicts: new Map() };
}

/** The protocol of an ingress listener, inside the TLS that the proxy terminates. */
export function ingressProtocol({ port, tls }: SidecarIngress): Protocol {
  const protocol = parseProtocol(port.protocol);
  if (tls === undefined) return protocol;
  if (protocol === 'HTTPS') return 'HTTP';
  return protocol === 'TLS' ? 'TCP' : protocol;
}

type CaptureMode = NonNullable<Scope['ingress']>[number]['captureMode'];

function bindsIngress(captureMode: CaptureMode, view: Pick<InboundView, 'interception'>): boolean {
  return captureMode === 'NONE' || (view.interception === 'NONE' && captureMode !== 'IPTABLES');
}

/** Names of the listeners for a Sidecar's ingress with a bind address: no outbound listener can have them. */
export function ingressListenerNames({ ingress = [] }: ScopeReader, view: OutboundView): readonly string[] {
  return ingress.flatMap(({ port, bind = '', captureMode }) =>
    bind === '' || port.number === undefined || !bindsIngress(captureMode, view)
      ? []
      : [listenerName(socketPath(bind) ?? bind, port.number)],
  );
}
