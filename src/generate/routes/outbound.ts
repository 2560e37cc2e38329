/** Route configurations of sidecars: one for each that an outbound listener asks for. */
import type { Scope, Snapshot } from '../../model/types.ts';
import { outboundPlan } from '../listeners/outbound-plan.ts';
import type { OutboundRoutePlan } from '../listeners/port-plan.ts';
import type { OutboundView, Unit, UnitOutput } from '../types.ts';
import { scopeOfView } from '../view-scope.ts';
import { MESH_GATEWAY, type RouteContext, routeFeatures, scopeLookups } from './context.ts';
import { MAX_BODY_BYTES } from './direct-response.ts';
import { catchAllHost, type EncodedHosts, type OutboundHosts, sharedHosts, singleHost } from './outbound-hosts.ts';
import { routeConfiguration } from './route-configuration.ts';

/** The names of all route configurations that the view's listeners ask for. */
export function outboundRouteUnits(snapshot: Snapshot, view: OutboundView): readonly Unit[] {
  return [...outboundPlan(snapshot, view).routes.keys()];
}

export function outboundRoutes(snapshot: Snapshot, view: OutboundView, unit: Unit): UnitOutput {
  const plan = outboundPlan(snapshot, view).routes.get(unit);
  const scope = scopeOfView(snapshot, view);
  if (plan === undefined || scope === undefined) return { resources: [], findings: [] };
  const { virtualHosts, duplicates } = virtualHostsOf(plan, scope, snapshot, view);
  // A cluster that a route names may come later, or never: the route is right all the same, and answers 503 until then.
  const resource = routeConfiguration(unit, virtualHosts, {
    validateClusters: { value: false },
    maxDirectResponseBodySizeBytes: { value: MAX_BODY_BYTES },
  });
  return {
    resources: [resource],
    findings: duplicates.map((message) => ({ metric: 'ctl_vservice_dup_domain', type: 'rds', unit, message })),
  };
}

function virtualHostsOf(
  plan: OutboundRoutePlan,
  scope: Scope,
  snapshot: Snapshot,
  view: OutboundView,
): Pick<EncodedHosts, 'virtualHosts' | 'duplicates'> {
  const context: RouteContext = {
    gateway: MESH_GATEWAY,
    port: plan.port,
    defaultTimeoutMs: snapshot.settings.defaultRequestTimeoutMs,
    features: routeFeatures(view),
    lookups: scopeLookups(scope, {
      namespace: view.namespace,
      labels: view.sourceLabels,
    }),
  };
  const hosts: OutboundHosts = {
    entries: plan.entries,
    services: scope.services,
    virtualServices: scope.egress[plan.egress]?.virtualServices ?? [],
    dnsDomain: view.dnsDomain,
  };
  if (plan.host !== undefined) {
    const only = singleHost(hosts, plan.host, context);
    return { virtualHosts: only === undefined ? [] : [only], duplicates: [] };
  }
  const { virtualHosts, duplicates, takesAll } = sharedHosts(hosts, context);
  if (takesAll) return { virtualHosts, duplicates };
  return { virtualHosts: [...virtualHosts, catchAllHost(scope.outboundTrafficPolicy)], duplicates };
}
