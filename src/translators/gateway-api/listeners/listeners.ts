/**
 * Plans the listeners of a Gateway: which of them are valid, which routes each permits, and its TLS settings
 * (https://gateway-api.sigs.k8s.io/reference/spec/#gatewayspec, "Distinct Listeners").
 */
import {
  type GatewayListener,
  type LabelSelector,
  type Resource,
  type RouteGroupKind,
  resourceKey,
  type SecretName,
  type ServerTlsSettings,
} from '../../../resources/index.ts';
import type { Complaint } from '../conditions.ts';
import type { Documents } from '../documents.ts';
import { GATEWAY_GROUP } from '../references.ts';
import { covers, hostnameOf } from './hostnames.ts';
import { clientValidation, keyPairSecret, serverCertificates } from './listener-tls.ts';

export const ROUTE_KINDS = ['GRPCRoute', 'HTTPRoute', 'TCPRoute', 'TLSRoute'] as const;
export type RouteKind = (typeof ROUTE_KINDS)[number];

/** What a listener does with connections. */
export type ListenerUse = 'http' | 'https' | 'terminate' | 'passthrough' | 'tcp';

export type AllowedNamespaces = 'All' | 'Same' | 'None' | LabelSelector;

export interface PlannedListener {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
  /** `*`: any. */
  readonly hostname: string;
  readonly use: ListenerUse | undefined;
  /** Kinds of routes that may attach. */
  readonly kinds: readonly RouteKind[];
  readonly namespaces: AllowedNamespaces;
  /** The TLS settings of a listener that terminates TLS. */
  readonly tls: ServerTlsSettings | undefined;
  /** Why it is not accepted; `isConflict`: because of another listener. */
  readonly rejected: (Complaint & { readonly isConflict?: true }) | undefined;
  /** The reason why references of the listener are not resolved. */
  readonly unresolved: Complaint | undefined;
  /** A message about Secrets that are not known to the control plane; undefined if all are known. */
  readonly unchecked: string | undefined;
  /** Whether proxies get a configuration for it. */
  readonly isServed: boolean;
  /**
   * Why its connections are closed (or, without TLS, its requests receive HTTP 404): it has no certificate, cannot
   * verify clients, or has the hostname of another listener. They must not reach another listener of the port, such as
   * one for all hostnames, which may have routes of other owners or be less strict with clients. Of listeners with the
   * same hostname, the first is closed.
   */
  readonly closedBecause: string | undefined;
  /** Whether the hosts of another TLS listener of the port overlap with its own. */
  readonly overlaps: boolean;
}

export interface GatewayPlan {
  readonly namespace: string;
  readonly name: string;
  readonly created: number | undefined;
  /** The key pair that is presented to backends with TLS. */
  readonly clientKeyPair: SecretName | undefined;
  /** The reason why references of the Gateway itself are not resolved. */
  readonly unresolved: Complaint | undefined;
  /** Why the Gateway is not accepted at all; nothing of it is served then. */
  readonly rejected: Complaint | undefined;
  readonly listeners: readonly PlannedListener[];
}

type KubernetesGateway = Resource<'KubernetesGateway'>;

/**
 * The listeners of a Gateway of a class of this controller.
 * @param gatewayReads whether the gateway reads the Secrets of its namespace itself
 */
export function planGateway(
  documents: Documents,
  gateway: KubernetesGateway,
  gatewayClass: Resource<'GatewayClass'>,
  gatewayReads: boolean,
): GatewayPlan {
  const { namespace, name, created } = gateway.meta;
  const rejected = classComplaint(gatewayClass) ?? gatewayComplaint(gateway);
  const base = { namespace, name, created, ...clientCertificate(documents, gateway) };
  const planned = gateway.content.listeners.map((listener) =>
    planListener({ documents, gateway, gatewayReads }, listener),
  );
  if (rejected === undefined) {
    const none = planned.every((listener) => listener.rejected !== undefined);
    const invalid = { reason: 'ListenersNotValid', message: 'no listener is valid' };
    return { ...base, rejected: none ? invalid : undefined, listeners: planned };
  }
  const listeners = planned.map((listener) => ({ ...listener, isServed: false, closedBecause: undefined }));
  return { ...base, rejected, listeners };
}

function clientCertificate(
  documents: Documents,
  { meta, content }: KubernetesGateway,
): Pick<GatewayPlan, 'clientKeyPair' | 'unresolved'> {
  const reference = content.tls?.backend?.clientCertificateRef;
  if (reference === undefined) return { clientKeyPair: undefined, unresolved: undefined };
  const found = keyPairSecret(documents, meta.namespace, reference);
  if (!('reason' in found)) return { clientKeyPair: found, unresolved: undefined };
  const reason = found.reason === 'InvalidCertificateRef' ? 'InvalidClientCertificateRef' : found.reason;
  return { clientKeyPair: NO_KEY_PAIR, unresolved: { reason, message: found.message } };
}

/** Prevents connections that need a key pair: without it, a server might accept them with fewer permissions. */
const NO_KEY_PAIR: SecretName = { namespace: '', name: '' };

const ADDRESS_TYPES: ReadonlySet<string> = new Set(['IPAddress', 'Hostname']);

/** Why a class, and with it all of its Gateways, is not accepted. */
export function classComplaint({ meta, content }: Resource<'GatewayClass'>): Complaint | undefined {
  if (content.parametersRef === undefined) return undefined;
  const message = `parametersRef of GatewayClass ${meta.name}: no kind of parameters is supported`;
  return { reason: 'InvalidParameters', message };
}

function gatewayComplaint({ content }: KubernetesGateway): Complaint | undefined {
  if (content.infrastructure?.parametersRef !== undefined) {
    return { reason: 'InvalidParameters', message: 'parametersRef: no kind of parameters is supported' };
  }
  const unknown = content.addresses?.find(({ type = 'IPAddress' }) => !ADDRESS_TYPES.has(type));
  if (unknown === undefined) return undefined;
  return { reason: 'UnsupportedAddress', message: `addresses of type ${unknown.type} are not supported` };
}

interface ListenerContext {
  readonly documents: Documents;
  readonly gateway: KubernetesGateway;
  readonly gatewayReads: boolean;
}

function planListener(context: ListenerContext, listener: GatewayListener): PlannedListener {
  const { gateway } = context;
  const { name, port, protocol, allowedRoutes } = listener;
  const hostname = hasHostname(protocol) ? hostnameOf(listener.hostname) : '*';
  const use = listenerUse(listener);
  const supported = use === undefined ? [] : KINDS_OF[use];
  const kinds = allowedKinds(allowedRoutes?.kinds, supported);
  const tls = use === 'https' || use === 'terminate' ? serverTls(context, listener, use) : undefined;
  const rejected: PlannedListener['rejected'] =
    findConflict(gateway, listener) ?? protocolComplaint(listener, use) ?? tls?.rejected;
  const unresolved = kinds.complaint ?? tls?.unresolved;
  return {
    name,
    port,
    protocol,
    hostname,
    use,
    kinds: kinds.allowed,
    namespaces: allowedNamespaces(allowedRoutes?.namespaces),
    tls: tls?.settings,
    rejected,
    unresolved,
    unchecked: tls?.unchecked,
    isServed: rejected === undefined && use !== undefined && (tls === undefined || tls.settings !== undefined),
    closedBecause:
      closedBecause(gateway, listener, rejected) ?? (rejected?.isConflict ? undefined : tls?.closedBecause),
    overlaps: overlaps(gateway, listener),
  };
}

/**
 * Why connections for the hostname of a refused listener are closed: otherwise a less specific listener would accept
 * them.
 */
function closedBecause(
  { content }: KubernetesGateway,
  listener: GatewayListener,
  rejected: PlannedListener['rejected'],
): string | undefined {
  if (rejected === undefined || rejected.reason === PROTOCOL_CONFLICT || !hasHostname(listener.protocol))
    return undefined;
  const hostname = hostnameOf(listener.hostname);
  const first = content.listeners.find(
    (other) => other.port === listener.port && hostnameOf(other.hostname) === hostname,
  );
  return first === listener ? rejected.message : undefined;
}

function hasHostname(protocol: string): boolean {
  return protocol === 'HTTP' || protocol === 'HTTPS' || protocol === 'TLS';
}

function listenerUse({ protocol, tls }: GatewayListener): ListenerUse | undefined {
  const mode = tls?.mode ?? 'Terminate';
  switch (protocol) {
    case 'HTTP':
      return 'http';
    case 'HTTPS':
      return mode === 'Terminate' && tls !== undefined ? 'https' : undefined;
    case 'TLS':
      if (mode === 'Passthrough') return 'passthrough';
      return mode === 'Terminate' && tls !== undefined ? 'terminate' : undefined;
    case 'TCP':
      return 'tcp';
    default:
      return undefined;
  }
}

const KINDS_OF: Readonly<Record<ListenerUse, readonly RouteKind[]>> = {
  http: ['HTTPRoute', 'GRPCRoute'],
  https: ['HTTPRoute', 'GRPCRoute'],
  terminate: ['TLSRoute', 'TCPRoute'],
  passthrough: ['TLSRoute'],
  tcp: ['TCPRoute'],
};

function protocolComplaint({ protocol, tls }: GatewayListener, use: ListenerUse | undefined): Complaint | undefined {
  if (use !== undefined) return undefined;
  if (protocol !== 'HTTPS' && protocol !== 'TLS') {
    return { reason: 'UnsupportedProtocol', message: `protocol ${protocol} is not supported` };
  }
  const message =
    tls === undefined
      ? `protocol ${protocol} needs TLS settings`
      : `TLS mode ${tls.mode} is not supported with ${protocol}`;
  return { reason: 'UnsupportedValue', message };
}

function allowedKinds(
  written: readonly RouteGroupKind[] | undefined,
  supported: readonly RouteKind[],
): { readonly allowed: readonly RouteKind[]; readonly complaint: Complaint | undefined } {
  if (written === undefined || written.length === 0) return { allowed: supported, complaint: undefined };
  const allowed = supported.filter((kind) => written.some((each) => isKind(each, kind)));
  const wrong = written.find((each) => !supported.some((kind) => isKind(each, kind)));
  if (wrong === undefined) return { allowed, complaint: undefined };
  const message = `routes of kind ${wrong.kind} cannot attach to a listener of this protocol`;
  return { allowed, complaint: { reason: 'InvalidRouteKinds', message } };
}

function isKind({ group = GATEWAY_GROUP, kind }: RouteGroupKind, route: RouteKind): boolean {
  return group === GATEWAY_GROUP && kind === route;
}

/** An unknown value allows no namespaces. */
function allowedNamespaces(
  written: { readonly from?: string | undefined; readonly selector?: LabelSelector | undefined } | undefined,
): AllowedNamespaces {
  const from = written?.from ?? 'Same';
  if (from === 'All' || from === 'Same') return from;
  return from === 'Selector' ? (written?.selector ?? 'None') : 'None';
}

/** The family of the protocol: all listeners of a port must have the same. */
function familyOf(protocol: string): string {
  return protocol === 'HTTPS' ? 'TLS' : protocol;
}

/** With this conflict, no listener of the port is accepted. */
const PROTOCOL_CONFLICT = 'ProtocolConflict';

function findConflict({ content }: KubernetesGateway, listener: GatewayListener): PlannedListener['rejected'] {
  for (const other of content.listeners) {
    if (other === listener || other.port !== listener.port) continue;
    const conflict = (reason: string, what: string) => ({
      reason,
      message: `${what} of port ${listener.port} is also used by listener ${other.name}`,
      isConflict: true as const,
    });
    if (familyOf(other.protocol) !== familyOf(listener.protocol)) {
      return {
        ...conflict(PROTOCOL_CONFLICT, ''),
        message: `port ${listener.port} has protocol ${other.protocol} in listener ${other.name}`,
      };
    }
    if (!hasHostname(listener.protocol)) return conflict(PROTOCOL_CONFLICT, `protocol ${listener.protocol}`);
    if (hostnameOf(other.hostname) === hostnameOf(listener.hostname)) {
      return conflict('HostnameConflict', `hostname ${hostnameOf(listener.hostname)}`);
    }
  }
  return undefined;
}

function overlaps({ content }: KubernetesGateway, listener: GatewayListener): boolean {
  if (familyOf(listener.protocol) !== 'TLS') return false;
  const hostname = hostnameOf(listener.hostname);
  return content.listeners.some((other) => {
    if (other === listener || other.port !== listener.port || familyOf(other.protocol) !== 'TLS') return false;
    const theirs = hostnameOf(other.hostname);
    return covers(hostname, theirs) || covers(theirs, hostname);
  });
}

interface ServerTls {
  readonly settings: ServerTlsSettings | undefined;
  readonly closedBecause: string | undefined;
  readonly rejected: Complaint | undefined;
  readonly unresolved: Complaint | undefined;
  readonly unchecked: string | undefined;
}

function serverTls(
  { documents, gateway, gatewayReads }: ListenerContext,
  listener: GatewayListener,
  use: 'https' | 'terminate',
): ServerTls {
  const { namespace } = gateway.meta;
  const certificates = serverCertificates(documents, namespace, listener.tls?.certificateRefs ?? [], gatewayReads);
  const clients = use === 'https' ? clientValidation(documents, gateway, listener.port) : undefined;
  const isUsable = certificates.keyPairs.length > 0 && clients?.rejected === undefined;
  return {
    settings: isUsable
      ? { mode: 'SIMPLE', keyPairs: certificates.keyPairs, ...(clients === undefined ? {} : clients.settings) }
      : undefined,
    closedBecause: isUsable ? undefined : (clients?.rejected ?? certificates.unresolved)?.message,
    rejected: clients?.rejected,
    unresolved: certificates.unresolved ?? clients?.unresolved,
    unchecked: certificates.unchecked,
  };
}

/** The fact that stands for the plan of a Gateway. */
export function planFact(namespace: string, name: string): string {
  return `plan/${namespace}/${name}`;
}

export function gatewayKeyOf({ namespace, name }: Pick<GatewayPlan, 'namespace' | 'name'>): string {
  return resourceKey('KubernetesGateway', namespace, name);
}
