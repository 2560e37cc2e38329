/** Statuses of GatewayClasses and Gateways. */
import { hash } from 'node:crypto';
import type { Resource } from '../../../resources/index.ts';
import { type Complaint, condition, verdict } from '../conditions.ts';
import type { Documents } from '../documents.ts';
import { SUPPORTED_FEATURES } from '../features.ts';
import { acceptsInsecureClients } from '../listeners/listener-tls.ts';
import { classComplaint, type GatewayPlan, type PlannedListener } from '../listeners/listeners.ts';
import { GATEWAY_GROUP } from '../references.ts';
import type { Condition, ListenerStatus, ServedListener, StatusContent } from '../status-types.ts';

export function classStatus(gatewayClass: Resource<'GatewayClass'>): StatusContent {
  const { generation } = gatewayClass.meta;
  const accepted = { reason: 'Accepted', message: 'Gateways of this class are served' };
  return {
    conditions: [verdict('Accepted', classComplaint(gatewayClass), accepted, generation)],
    supportedFeatures: SUPPORTED_FEATURES.map((name) => ({ name })),
  };
}

/** Name of the Service in front of the proxies of a Gateway. */
export function gatewayServiceName(gateway: string): string {
  return `${gateway}-meshd`;
}

type Addresses = NonNullable<StatusContent['addresses']>;

/** The addresses of the Service in front of the proxies. */
function serviceAddresses(documents: Documents, { namespace, name }: GatewayPlan): Addresses {
  const service = documents.get('Service', namespace, gatewayServiceName(name));
  if (service === undefined) return [];
  const { spec, status } = service.content;
  const ip = (value: string) => ({ type: 'IPAddress', value });
  const external = (spec.externalIPs ?? []).map(ip);
  if (spec.type === 'LoadBalancer') {
    const assigned = (status?.loadBalancer?.ingress ?? []).flatMap((ingress) => {
      if (ingress.ip !== undefined && ingress.ip !== '') return ip(ingress.ip);
      return ingress.hostname === undefined ? [] : { type: 'Hostname', value: ingress.hostname };
    });
    return [...assigned, ...external];
  }
  const cluster = spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP]);
  return [...cluster.filter((address) => address !== '' && address !== 'None').map(ip), ...external];
}

export interface GatewayStatusInput {
  readonly documents: Documents;
  readonly gateway: Resource<'KubernetesGateway'>;
  readonly plan: GatewayPlan;
  /** Number of routes that are attached to a listener of this name. */
  readonly attachedRoutes: (listener: string) => number;
}

export function gatewayStatus({ documents, gateway, plan, attachedRoutes }: GatewayStatusInput): StatusContent {
  const { meta, content } = gateway;
  const { generation } = meta;
  const { rejected } = plan;
  const assigned = serviceAddresses(documents, plan);
  const requested = (content.addresses ?? []).flatMap(({ value }) => value || []);
  const addresses = requested.length === 0 ? assigned : assigned.filter(({ value }) => requested.includes(value));
  const unusable = requested.find((value) => !assigned.some((address) => address.value === value));
  const isProgrammed = rejected === undefined && addresses.length > 0 && unusable === undefined;
  const invalid = plan.listeners.filter((listener) => listener.rejected !== undefined);
  const accepted: Complaint =
    invalid.length === 0
      ? { reason: 'Accepted', message: 'the Gateway is served' }
      : { reason: 'ListenersNotValid', message: `not valid: ${namesOf(invalid)}` };
  const notProgrammed = isProgrammed ? undefined : programmedComplaint(rejected, unusable);
  const unresolved = plan.listeners.filter((listener) => listener.unresolved !== undefined);
  const listenerReferences: Complaint | undefined =
    unresolved.length === 0
      ? undefined
      : { reason: 'ListenersNotResolved', message: `references not resolved: ${namesOf(unresolved)}` };
  const references = plan.unresolved ?? listenerReferences;
  return {
    addresses,
    conditions: [
      verdict('Accepted', rejected, accepted, generation),
      verdict('Programmed', notProgrammed, { reason: 'Programmed', message: 'proxies are configured' }, generation),
      verdict('ResolvedRefs', references, RESOLVED, generation),
      ...(acceptsInsecureClients(gateway) ? [insecureClients(generation)] : []),
    ],
    listeners: plan.listeners.map((listener) => listenerStatus(listener, attachedRoutes(listener.name), generation)),
  };
}

const RESOLVED: Complaint = { reason: 'ResolvedRefs', message: 'all references are resolved' };

function namesOf(listeners: readonly PlannedListener[]): string {
  return `listener ${listeners.map(({ name }) => name).join(', ')}`;
}

function programmedComplaint(rejected: Complaint | undefined, unusable: string | undefined): Complaint {
  if (rejected !== undefined) return { reason: 'Invalid', message: rejected.message };
  if (unusable !== undefined) return { reason: 'AddressNotUsable', message: `address ${unusable} cannot be assigned` };
  return { reason: 'AddressNotAssigned', message: 'the Service of the Gateway has no address yet' };
}

function insecureClients(generation: number | undefined): Condition {
  const message = 'clients are accepted without a valid certificate (AllowInsecureFallback)';
  return condition('InsecureFrontendValidationMode', 'True', 'ConfigurationChanged', message, generation);
}

function listenerStatus(
  listener: PlannedListener,
  attachedRoutes: number,
  generation: number | undefined,
): ListenerStatus {
  const { name, kinds, rejected, unresolved, unchecked, isServed, overlaps } = listener;
  const resolved = unchecked === undefined ? RESOLVED : { ...RESOLVED, message: unchecked };
  const conflict = rejected?.isConflict === true ? rejected : undefined;
  const notServed: Complaint = { reason: 'Invalid', message: (rejected ?? unresolved)?.message ?? 'not served' };
  return {
    name,
    attachedRoutes,
    supportedKinds: kinds.map((kind) => ({ group: GATEWAY_GROUP, kind })),
    conditions: [
      verdict('Accepted', rejected, { reason: 'Accepted', message: 'the listener is valid' }, generation),
      verdict(
        'Programmed',
        isServed ? undefined : notServed,
        { reason: 'Programmed', message: 'proxies are configured' },
        generation,
      ),
      verdict('ResolvedRefs', unresolved, resolved, generation),
      conflict === undefined
        ? condition('Conflicted', 'False', 'NoConflicts', 'no other listener conflicts', generation)
        : condition('Conflicted', 'True', conflict.reason, conflict.message, generation),
      ...(overlaps ? [overlappingTls(generation)] : []),
    ],
  };
}

/** Characters of a digest, 6 bits each: a Gateway has few listeners, and a collision has no benefit for an attacker. */
const DIGEST_LENGTH = 12;

/** The listeners of a Gateway that proxies get a configuration for. */
export function servedListeners({ listeners }: GatewayPlan): readonly ServedListener[] {
  return listeners
    .filter(({ isServed }) => isServed)
    .map(({ name, port, protocol, hostname, use, tls }) => {
      const digest = hash('sha256', JSON.stringify([port, protocol, hostname, use, tls]), 'base64url');
      return { name, port, digest: digest.slice(0, DIGEST_LENGTH) };
    });
}

function overlappingTls(generation: number | undefined): Condition {
  const message = 'another listener of the port has overlapping hostnames: misdirected requests receive HTTP 421';
  return condition('OverlappingTLSConfig', 'True', 'OverlappingHostnames', message, generation);
}
