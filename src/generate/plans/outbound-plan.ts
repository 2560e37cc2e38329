/**
 * The plan of a view's outbound ports (see `port-plan.ts`), kept for all views that read the same: namespaces that see the same
 * services share it, and it outlives every change that leaves the services as they are.
 */
import type { MeshSnapshot, ModelSettings, Scope } from '../../model/types.ts';
import type { MeshConfig } from '../../resources/mesh-config.ts';
import { scopeOfView } from '../common/index.ts';
import { sniffs } from '../filters/index.ts';
import type { OutboundView } from '../types.ts';
import { ingressListenerNames } from './inbound-plan.ts';
import { type Egress, makePlan, type OutboundPlan, type PlanInput } from './port-plan.ts';

const EMPTY: OutboundPlan = { ports: new Map(), routes: new Map() };

interface PlanEntry {
  /** Everything that was read, except for the services. */
  readonly text: string;
  readonly services: readonly Egress['services'][];
  readonly plan: OutboundPlan;
}

interface ViewPlan {
  readonly scope: Scope;
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly plan: OutboundPlan;
}

/** Ways of using the same services (interception modes, Sidecars) that are remembered. The oldest goes first. */
const MAX_PLANS = 16;

/** By the services of the first egress listener: namespaces that see the same services share a plan. */
const plans = new WeakMap<Egress['services'], PlanEntry[]>();
/** A view's plan while its scope stands, for the many units that ask one after the other. */
const plansOfViews = new WeakMap<OutboundView, ViewPlan>();

/** The plan of a view. */
export function outboundPlan(snapshot: MeshSnapshot, view: OutboundView): OutboundPlan {
  const scope = scopeOfView(snapshot, view);
  if (scope === undefined) return EMPTY;
  const { settings, mesh } = snapshot;
  const known = plansOfViews.get(view);
  if (known?.scope === scope && known.settings === settings && known.mesh === mesh) return known.plan;
  const plan = sharedPlan(scope, planInput(settings, mesh, view, scope));
  plansOfViews.set(view, { scope, settings, mesh, plan });
  return plan;
}

function sharedPlan(scope: Scope, input: PlanInput): OutboundPlan {
  const egress = scope.egress.map(({ port, bind, captureMode, services }, index) => {
    return { port, bind, captureMode, services, index };
  });
  const [first] = egress;
  if (first === undefined) return EMPTY;
  const text = JSON.stringify([input, egress.map(({ services, ...rest }) => rest)]);
  const services = egress.map((each) => each.services);
  const entries = plans.get(first.services) ?? [];
  plans.set(first.services, entries);
  const known = entries.find((entry) => entry.text === text && services.every((each, i) => each === entry.services[i]));
  if (known !== undefined) return known.plan;
  const plan = makePlan(egress, input);
  if (entries.length >= MAX_PLANS) entries.shift();
  entries.push({ text, services, plan });
  return plan;
}

function planInput(settings: ModelSettings, mesh: MeshConfig, view: OutboundView, scope: Scope): PlanInput {
  const intercepted = view.interception !== 'NONE';
  return {
    sniff: sniffs(settings, 'sniffOutbound', view),
    intercepted,
    families: view.families,
    podListeners: hasPodListeners(settings),
    reserved: intercepted ? [mesh.proxyListenPort, mesh.proxyInboundListenPort] : [],
    taken: ingressListenerNames(scope, view),
  };
}

/** Whether each pod of a headless TCP service has a listener of its own. */
export function hasPodListeners({ headlessPodListeners, edsForHeadless }: ModelSettings): boolean {
  return headlessPodListeners && !edsForHeadless;
}
