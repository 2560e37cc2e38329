/** What a change means for the outbound part of sidecars. */
import { hostMatches, isWildcardHost } from '../../model/index.ts';
import type {
  ChangeSet,
  MergedDestinationRule,
  MeshSnapshot,
  ResolvedVirtualService,
  Scope,
  Service,
} from '../../model/types.ts';
import { outboundRouteName } from '../common/index.ts';
import type { ClientView } from '../endpoints/index.ts';
import { sniffs } from '../filters/index.ts';
import { virtualServicesAbout } from '../indexes/index.ts';
import { routesConnections } from '../listeners/index.ts';
import type { OutboundView, UnitSelection } from '../types.ts';
import { ALL_UNITS, Marks } from './marks.ts';

const DEFAULT_HTTP_PORT = 80;
/** Route configuration in which virtual services stand whose hosts are no services there. */
const DEFAULT_HTTP_ROUTES = outboundRouteName(DEFAULT_HTTP_PORT);

/** How an egress listener's `bind` says that it is a unix domain socket. */
const SOCKET = 'unix://';

interface Context {
  readonly scopes: readonly [before: Scope, after: Scope];
  readonly marks: Marks;
  readonly sniffing: boolean;
}

export function affectedOutbound(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  change: ChangeSet,
  view: OutboundView,
): UnitSelection | undefined {
  const before = previous.scopeById(view.scope);
  const after = next.scopeById(view.scope);
  const scopeChange = change.scopes.get(view.scope);
  if (before === undefined && after === undefined) return undefined;
  if (before === undefined || after === undefined || scopeChange?.everything === true) return ALL_UNITS;
  // Another scope without a word about it: it was not yet built when the change was looked at.
  if (before !== after && scopeChange === undefined) return ALL_UNITS;
  const sniffing = sniffs(next.settings, 'sniffOutbound', view);
  const context: Context = { scopes: [before, after], marks: new Marks(), sniffing };
  for (const host of scopeChange?.hosts ?? []) markHost(context, host);
  for (const host of scopeChange?.destinationRules ?? []) {
    context.marks.add('cds', host);
    const rules = context.scopes.map((scope) => scope.destinationRule(host));
    if (rules.some((rule) => readOutsideClusters(rule, view))) markUsersOf(context, host);
  }
  for (const { before: old, after: current } of scopeChange?.virtualServices.values() ?? []) {
    for (const virtualService of [old, current]) {
      if (virtualService !== undefined) markVirtualService(context, virtualService);
    }
  }
  for (const key of change.endpoints) markEndpoints(context, previous, next, key);
  if (view.capabilities.sds) markPeers(context.marks, context.scopes, change, previous, next);
  return (view.virtualHosts === 'discovered' ? context.marks.withVirtualHosts() : context.marks).selection();
}

/** A service came, went or was redefined. */
function markHost(context: Context, host: string): void {
  context.marks.add('cds', host);
  markUsersOf(context, host);
}

/** Listeners and routes that read a service or its destination rule. */
function markUsersOf(context: Context, host: string): void {
  for (const scope of context.scopes) {
    markPorts(context, scope, host, scope.services.get(host), true);
    for (const { virtualServices } of scope.egress) {
      for (const virtualService of virtualServicesAbout(virtualServices, host)) {
        markVirtualService(context, virtualService);
      }
    }
  }
}

function markPorts(
  context: Context,
  scope: Scope,
  host: string,
  service: Service | undefined,
  listeners: boolean,
): void {
  const { marks } = context;
  for (const port of service?.ports ?? []) {
    if (port.protocol === 'UDP') continue;
    marks.routesOf(host, port);
    // Without sniffing, a port has routes only if its oldest service is HTTP.
    if (!context.sniffing && listeners) marks.add('rds', outboundRouteName(port.port));
    if (listeners) marks.listenerPort(port.port);
  }
  // A Sidecar's egress listener of its own port, or of a unix domain socket, serves services whatever their ports are.
  for (const { port, bind, services } of scope.egress) {
    if (port === undefined || !services.has(host)) continue;
    if (bind.startsWith(SOCKET)) marks.add('rds', bind.slice(SOCKET.length));
    else marks.routesOf(host, { name: port.name, port: port.number, protocol: port.protocol });
    if (listeners) marks.listenerPort(port.number);
  }
}

function markVirtualService(context: Context, virtualService: ResolvedVirtualService): void {
  const listeners = routesConnections(virtualService);
  const isHttp = (virtualService.content.http ?? []).length > 0;
  for (const scope of context.scopes) {
    for (const host of virtualService.hosts) {
      const services = servicesMatching(scope, host);
      if (isHttp && !services.some(servesDefaultPort)) context.marks.add('rds', DEFAULT_HTTP_ROUTES);
      for (const service of services) markPorts(context, scope, service.hostname, service, listeners);
    }
  }
}

function servesDefaultPort({ ports }: Service): boolean {
  return ports.some(({ port }) => port === DEFAULT_HTTP_PORT);
}

function servicesMatching(scope: Scope, host: string): readonly Service[] {
  if (isWildcardHost(host)) return [...scope.services.values()].filter(({ hostname }) => hostMatches(host, hostname));
  const service = scope.services.get(host);
  return service === undefined ? [] : [service];
}

/** Clusters that expect other identities behind their services. */
export function markPeers(
  marks: Marks,
  scopes: readonly Scope[],
  change: ChangeSet,
  previous: MeshSnapshot,
  next: MeshSnapshot,
): void {
  for (const key of change.peers) {
    const hostname = (next.services.get(key) ?? previous.services.get(key))?.hostname;
    if (hostname === undefined || !scopes.some((scope) => scope.services.get(hostname)?.key === key)) continue;
    marks.add('cds', hostname);
  }
}

/** Endpoints travel by EDS, except where they stand in the configuration itself. */
function markEndpoints({ scopes, marks }: Context, previous: MeshSnapshot, next: MeshSnapshot, key: string): void {
  const snapshots = [previous, next];
  for (const [index, scope] of scopes.entries()) {
    const snapshot = snapshots[index];
    const service = snapshot?.services.get(key);
    if (snapshot === undefined || service === undefined || scope.services.get(service.hostname)?.key !== key) continue;
    if (service.resolution === 'dns') marks.add('cds', service.hostname);
    const { headlessPodListeners, edsForHeadless } = snapshot.settings;
    if (!service.headless || !headlessPodListeners || edsForHeadless) continue;
    for (const { port, protocol } of service.ports) if (protocol !== 'UDP') marks.listenerPort(port);
  }
}

/**
 * Whether a destination rule says something that stands in routes or TCP proxies and not only in its clusters: hashing, and TLS that
 * is not the mesh's, of which TCP proxies with certificates of the mesh keep off.
 */
export function readOutsideClusters(rule: MergedDestinationRule | undefined, { capabilities }: ClientView): boolean {
  if (rule === undefined) return false;
  return [rule, ...rule.subsets].some(({ trafficPolicy }) =>
    [trafficPolicy, ...(trafficPolicy?.portLevelSettings ?? [])].some(
      (policy) =>
        policy?.loadBalancer?.consistentHash !== undefined ||
        (capabilities.sds && (policy?.tls?.mode === 'SIMPLE' || policy?.tls?.mode === 'MUTUAL')),
    ),
  );
}
