/** Derives Gateways and VirtualServices from listeners and the routes of their hostnames. */
import type { AnyResource, HttpRoute, RouteDestination, ServerTlsSettings } from '../../../resources/index.ts';
import { deriveResource } from '../../derived.ts';
import { covers } from '../listeners/hostnames.ts';
import { type GatewayPlan, gatewayKeyOf, type PlannedListener } from '../listeners/listeners.ts';
import type { HostRoutes, HostRules } from './host-routes.ts';
import type { TranslatedRoute } from './routes.ts';

/** The label of the Pods of a Gateway (GEP-1762). */
export const GATEWAY_NAME_LABEL = 'gateway.networking.k8s.io/gateway-name';

export interface ListenerOf {
  readonly gateway: GatewayPlan;
  readonly listener: PlannedListener;
}

/** `~` keeps the names of derived documents apart from those of users. */
function gatewayName({ gateway, listener }: ListenerOf, hostname?: string): string {
  const name = `gateway-api~${gateway.name}~${listener.name}`;
  return hostname === undefined ? name : `${name}~${hostname}`;
}

/**
 * Whether a listener has one Gateway for each hostname, because the destination of connections is chosen by Gateway.
 */
function hasGatewayPerHost({ use }: PlannedListener): boolean {
  return use === 'terminate';
}

/** The documents that are derived from a listener itself. */
export function listenerDocuments(of: ListenerOf): readonly AnyResource[] {
  const { isServed, closedBecause } = of.listener;
  if (closedBecause === undefined && (!isServed || hasGatewayPerHost(of.listener))) return [];
  return [derivedGateway(of, gatewayName(of), of.listener.hostname)];
}

const PROTOCOLS = { http: 'HTTP', https: 'HTTPS', terminate: 'TLS', passthrough: 'TLS', tcp: 'TCP' } as const;

function tlsOf({ use, tls, closedBecause }: PlannedListener): ServerTlsSettings | undefined {
  if (use === 'http') return undefined;
  if (closedBecause !== undefined) return { mode: 'SIMPLE', closed: `closes its connections: ${closedBecause}` };
  return use === 'passthrough' ? { mode: 'PASSTHROUGH' } : tls;
}

function derivedGateway({ gateway, listener }: ListenerOf, name: string, hostname: string): AnyResource {
  const { namespace, created } = gateway;
  const { use, port, closedBecause } = listener;
  // A closed listener also owns its hostname in requests on connections to other listeners, like an HTTPS listener.
  const isClosedTls = use !== 'http' && closedBecause !== undefined;
  const tls = tlsOf(listener);
  const server = {
    port: { number: port, name: listener.name, protocol: isClosedTls ? 'HTTPS' : PROTOCOLS[use ?? 'http'] },
    hosts: [hostname],
    ...(tls === undefined ? {} : { tls }),
  };
  const selector = { [GATEWAY_NAME_LABEL]: gateway.name };
  const content = {
    selector,
    servers: [server],
    ownNamespace: true as const,
    isolated: true as const,
    ...(gateway.clientKeyPair === undefined ? {} : { clientKeyPair: gateway.clientKeyPair }),
  };
  return deriveResource('Gateway', { namespace, name, created }, content, gatewayKeyOf(gateway));
}

/** Whether requests for these hosts belong to another listener of the port with a more specific hostname. */
export function isIsolated({ gateway, listener }: ListenerOf, hostname: string): boolean {
  return gateway.listeners.some(
    (other) =>
      other !== listener &&
      other.port === listener.port &&
      (other.isServed || other.closedBecause !== undefined) &&
      other.hostname !== listener.hostname &&
      covers(listener.hostname, other.hostname) &&
      covers(other.hostname, hostname),
  );
}

/**
 * The documents that are derived for a hostname of a listener.
 * @param routes those that are attached with the hostname
 */
export function hostDocuments(
  of: ListenerOf,
  hostname: string,
  routes: HostRoutes | undefined,
): readonly AnyResource[] {
  const { gateway, listener } = of;
  const { isServed, closedBecause, use } = listener;
  // All requests for the hostname of a closed listener receive HTTP 404.
  const isClosed = closedBecause !== undefined && use === 'http' && hostname === listener.hostname;
  if (!(isServed || isClosed) || isIsolated(of, hostname)) return [];
  const { namespace, created } = gateway;
  const derived = (
    routed: { http: HttpRoute[] } | ReturnType<typeof connectionRoutes>,
    by: string,
    digest?: string,
  ) => {
    const content = { hosts: [hostname], gateways: [`${namespace}/${by}`], ...routed };
    const hashed = digest === undefined ? content : { ...content, http: digest };
    const name = { namespace, name: gatewayName(of, hostname), created };
    return deriveResource('VirtualService', name, content, gatewayKeyOf(gateway), hashed);
  };
  if (use === 'http' || use === 'https') {
    const { http, digest } = httpRoutes(listener, isClosed ? undefined : routes);
    return [derived({ http }, gatewayName(of), digest)];
  }
  const [first] = routes?.inOrder ?? [];
  if (first === undefined && !listener.overlaps) return [];
  const connections = connectionRoutes(listener, hostname, first);
  if (!hasGatewayPerHost(listener)) return [derived(connections, gatewayName(of))];
  const name = gatewayName(of, hostname);
  return [derivedGateway(of, name, hostname), derived(connections, name)];
}

/** The response for hosts of a listener without routes. */
const NOT_FOUND: HttpRoute = { directResponse: { status: 404 } };

function httpRoutes({ use, port }: PlannedListener, routes: HostRoutes | undefined): HostRules {
  const rules = routes?.rules({ port, scheme: use === 'https' ? 'https' : 'http' });
  return rules === undefined || rules.http.length === 0 ? { http: [NOT_FOUND], digest: '' } : rules;
}

/** Connections for which there is no backend are closed. */
const CLOSED: RouteDestination = { destination: { host: '' }, weight: 1, unusable: true };

function connectionRoutes(listener: PlannedListener, hostname: string, route: TranslatedRoute | undefined) {
  const targets = (route?.compiled.targets ?? []).map(
    ({ backend, weight }): RouteDestination =>
      backend === undefined
        ? { ...CLOSED, weight }
        : { destination: { host: backend.host, port: { number: backend.port } }, weight },
  );
  const destinations = targets.length === 0 ? [CLOSED] : targets;
  if (listener.use === 'passthrough') return { tls: [{ match: [{ sniHosts: [hostname] }], route: destinations }] };
  return { tcp: [{ route: destinations }] };
}
