/**
 * Route configurations of sidecars: one for each that an outbound listener requests. A route configuration that all
 * services of a port share has a virtual host for each service. For a view that discovers its virtual hosts, these are
 * separate resources, including the catch-all, and the configuration never changes: otherwise Envoy would keep an old
 * catch-all in addition to a new host with all domains.
 */
import { InternalError } from '../../core/errors.ts';
import { addressedScope, adsConfigSource, InputCache } from '../common/index.ts';
import { type OutboundRoutePlan, plannedRoutes, routePlan } from '../listener-plans/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { Unit, UnitOutput } from '../types.ts';
import type { OutboundView } from '../views.ts';
import { MAX_BODY_BYTES } from './actions/direct-response.ts';
import { MESH_GATEWAY, type RouteContext, routeFeatures, scopeLookups } from './context.ts';
import { discoveredHost } from './hosts/discovered-host.ts';
import {
  catchAllHost,
  type EncodedHosts,
  type OutboundHosts,
  proxiedHosts,
  sharedHosts,
  singleHost,
} from './hosts/outbound-hosts.ts';
import { wantedHosts } from './hosts/wanted-hosts.ts';
import { type RouteConfigurationRest, routeConfiguration } from './route-configuration.ts';

const NOTHING: UnitOutput = { resources: [], findings: [] };

const REST: RouteConfigurationRest = {
  // A route's cluster may arrive later, or never: the route is valid nevertheless, and its requests get HTTP 503 until
  // then.
  validateClusters: { value: false },
  maxDirectResponseBodySizeBytes: { value: MAX_BODY_BYTES },
};

/** The names of all route configurations that the view's listeners request. */
export function outboundRouteUnits(snapshot: MeshReader, view: OutboundView): readonly Unit[] {
  return Array.from(plannedRoutes(snapshot, view), ({ name }) => name);
}

export function outboundRoutes(snapshot: MeshReader, view: OutboundView, unit: Unit): UnitOutput {
  const plan = routePlan(snapshot, view, unit);
  const scope = addressedScope(snapshot, view);
  if (plan === undefined || scope === undefined) return NOTHING;
  if (isDiscovered(view, plan)) {
    const vhds = { configSource: adsConfigSource(snapshot.settings.initialFetchTimeoutMs) };
    return { resources: [routeConfiguration(unit, [], { ...REST, vhds }, [unit])], findings: [] };
  }
  const { pieces, catchAll, duplicates } = virtualHostsOf(plan, scope, snapshot, view);
  return withDuplicates(
    'rds',
    unit,
    configurations.get(snapshot.memos, pieces, { unit, pieces, catchAll }),
    duplicates,
  );
}

/** Caches the result for virtual hosts: many namespaces have the same ones. */
interface PiecesInputs extends Pick<HostPieces, 'pieces' | 'catchAll'> {
  readonly unit: Unit;
}

const configurations = new InputCache<PiecesInputs, UnitOutput>(
  'route configurations',
  ({ unit, pieces, catchAll }) => {
    const virtualHosts = catchAll === undefined ? pieces : [...pieces, catchAll];
    return { resources: [routeConfiguration(unit, virtualHosts, REST)], findings: [] };
  },
);

const discovered = new InputCache<PiecesInputs, UnitOutput>(
  'discovered virtual hosts',
  ({ unit, pieces, catchAll }, memos) => {
    const resources = pieces.map((piece) => discoveredHost(memos, unit, piece));
    if (catchAll !== undefined) resources.push(discoveredHost(memos, unit, catchAll));
    return { resources, findings: [] };
  },
);

/** The names of route configurations whose virtual hosts are separate resources. */
export function discoveredUnits(snapshot: MeshReader, view: OutboundView): readonly Unit[] {
  if (view.virtualHosts !== 'discovered') return [];
  return [...plannedRoutes(snapshot, view)].filter((plan) => isDiscovered(view, plan)).map(({ name }) => name);
}

export function outboundVirtualHosts(snapshot: MeshReader, view: OutboundView, unit: Unit): UnitOutput {
  const plan = routePlan(snapshot, view, unit);
  const scope = addressedScope(snapshot, view);
  if (plan === undefined || scope === undefined || !isDiscovered(view, plan)) return NOTHING;
  const { pieces, catchAll, duplicates } = virtualHostsOf(plan, scope, snapshot, view);
  return withDuplicates('vhds', unit, discovered.get(snapshot.memos, pieces, { unit, pieces, catchAll }), duplicates);
}

/**
 * The virtual hosts of a route configuration that have these names, or that Envoy would choose for these hosts, and the
 * catch-all: the same resources as among all.
 */
export function wantedVirtualHosts(
  snapshot: MeshReader,
  view: OutboundView,
  unit: Unit,
  names: Iterable<string>,
): UnitOutput {
  const plan = routePlan(snapshot, view, unit);
  const scope = addressedScope(snapshot, view);
  if (plan === undefined || scope === undefined || !isDiscovered(view, plan)) return NOTHING;
  const { hosts, context } = hostInputs(plan, scope, snapshot, view);
  const { virtualHosts, duplicates, takesAll, among, spare } = wantedHosts(hosts, context, names);
  const pieces = takesAll ? virtualHosts : [...virtualHosts, catchAllHost(scope, context)];
  const resources = pieces.map((piece) => discoveredHost(snapshot.memos, unit, piece));
  const output = withDuplicates('vhds', unit, { resources, findings: [] }, duplicates);
  return { ...output, part: { among: among + 1, spare } };
}

/**
 * A service's own route configuration has one virtual host: discovery would have no benefit. Clients of an HTTP proxy
 * name ports with their hosts, but Envoy only requests the host.
 */
function isDiscovered(view: OutboundView, plan: OutboundRoutePlan): boolean {
  return view.virtualHosts === 'discovered' && plan.host === undefined && plan.byPort === undefined;
}

function withDuplicates(
  type: 'rds' | 'vhds',
  unit: Unit,
  output: UnitOutput,
  duplicates: readonly string[],
): UnitOutput {
  if (duplicates.length === 0) return output;
  const { resources } = output;
  return {
    resources,
    findings: duplicates.map((message) => ({ metric: 'ctl_vservice_dup_domain', type, unit, message })),
  };
}

interface HostPieces extends Pick<EncodedHosts, 'duplicates'> {
  /** All virtual hosts except the catch-all: one list object for all views with the same ones. */
  readonly pieces: readonly Uint8Array[];
  /** The catch-all; undefined if another virtual host has all domains. */
  readonly catchAll: Uint8Array | undefined;
}

interface HostInputs {
  readonly hosts: OutboundHosts;
  readonly context: RouteContext;
  readonly contextAt: (port: number) => RouteContext;
}

function hostInputs(plan: OutboundRoutePlan, scope: ScopeReader, snapshot: MeshReader, view: OutboundView): HostInputs {
  const contextAt = (port: number): RouteContext => ({
    memos: snapshot.memos,
    gateway: MESH_GATEWAY,
    port,
    defaultTimeoutMs: snapshot.settings.defaultRequestTimeoutMs,
    features: routeFeatures(snapshot, view),
    lookups: scopeLookups(
      scope,
      { namespace: view.namespace, labels: view.sourceLabels },
      plan.host === undefined ? port : undefined,
    ),
  });
  const listener = scope.egress[plan.egress];
  if (listener === undefined) throw new InternalError('planned routes are those of an egress listener');
  const hosts: OutboundHosts = {
    entries: plan.entries,
    services: scope.services,
    virtualServices: listener.virtualServices,
    dnsDomain: view.dnsDomain,
  };
  return { hosts, context: contextAt(plan.port), contextAt };
}

function virtualHostsOf(
  plan: OutboundRoutePlan,
  scope: ScopeReader,
  snapshot: MeshReader,
  view: OutboundView,
): HostPieces {
  const { hosts, context, contextAt } = hostInputs(plan, scope, snapshot, view);
  if (plan.host !== undefined) {
    const only = singleHost(hosts, plan.host, context);
    return { pieces: only === undefined ? [] : [only], catchAll: undefined, duplicates: [] };
  }
  const { virtualHosts, duplicates, takesAll } =
    plan.byPort === undefined ? sharedHosts(hosts, context) : proxiedHosts(hosts, plan.byPort, contextAt);
  const catchAll = takesAll ? undefined : catchAllHost(scope, context);
  return { pieces: virtualHosts, catchAll, duplicates };
}
