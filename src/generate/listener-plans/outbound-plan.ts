/**
 * The plan of a view's outbound ports (see `port-plan.ts`), cached for all views with the same inputs: namespaces that
 * see the same services share it, and it outlives every change that leaves the services unchanged.
 */
import type { Memos } from '../../core/memo.ts';
import type { ModelSettings } from '../../model/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { addressedScope, parseOutboundRouteName } from '../common/index.ts';
import { sniffs } from '../filters/index.ts';
import { fact, type MeshReader, note, type ScopeReader, unrecorded } from '../reads/index.ts';
import type { Unit } from '../types.ts';
import type { OutboundView } from '../views.ts';
import { ingressListenerNames } from './inbound-plan.ts';
import type { Egress, OutboundPlan, OutboundPortPlan, OutboundRoutePlan, PlanInput } from './plan-types.ts';
import { makePlan } from './port-plan.ts';

const EMPTY: OutboundPlan = { ports: new Map(), routes: new Map() };

interface PlanEntry {
  /** All inputs except the services, as a string. */
  readonly text: string;
  readonly services: readonly Egress['services'][];
  readonly plan: OutboundPlan;
}

interface ViewPlan {
  readonly scope: ScopeReader;
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly plan: OutboundPlan;
}

/** Maximum cached plans for the same services (by interception mode and Sidecar). The oldest is evicted first. */
const MAX_PLANS = 16;

/** The listener units of a view: the ports of its plan. */
export function plannedPorts(snapshot: MeshReader, view: OutboundView): readonly Unit[] {
  note(fact.PORTS);
  return [...outboundPlan(snapshot, view).ports.keys()];
}

export function portPlan(snapshot: MeshReader, view: OutboundView, unit: Unit): OutboundPortPlan | undefined {
  note(fact.port(Number(unit)));
  return outboundPlan(snapshot, view).ports.get(unit);
}

/** The route configurations of a view, including those of whole ports if protocol detection needs them. */
export function plannedRoutes(snapshot: MeshReader, view: OutboundView): Iterable<OutboundRoutePlan> {
  note(fact.HTTP_PORTS);
  // Without protocol detection a port is HTTP or TCP, like its oldest service.
  if (!sniffs(snapshot.settings, 'sniffOutbound', view)) note(fact.PORTS);
  return outboundPlan(snapshot, view).routes.values();
}

export function routePlan(snapshot: MeshReader, view: OutboundView, name: string): OutboundRoutePlan | undefined {
  const sniff = sniffs(snapshot.settings, 'sniffOutbound', view);
  const { host, port } = parseOutboundRouteName(name);
  if (sniff && host !== '') note(fact.host(host));
  else note(sniff ? fact.httpPort(port) : fact.port(port));
  return outboundPlan(snapshot, view).routes.get(name);
}

/** The plan of a view; callers record the facts they use of it. */
function outboundPlan(snapshot: MeshReader, view: OutboundView): OutboundPlan {
  const scope = addressedScope(snapshot, view);
  if (scope === undefined) return EMPTY;
  const { settings, mesh, memos } = snapshot;
  // Cached as long as the scope exists, for the many units that read it.
  const ofView = memos.weak<OutboundView, { last?: ViewPlan }>('plans of views').get(view, () => ({}));
  const known = ofView.last;
  if (known?.scope === scope && known.settings === settings && known.mesh === mesh) return known.plan;
  const plan = unrecorded(() => sharedPlan(memos, scope, planInput(settings, mesh, view, scope)));
  ofView.last = { scope, settings, mesh, plan };
  return plan;
}

function sharedPlan(memos: Memos, scope: ScopeReader, input: PlanInput): OutboundPlan {
  const egress = scope.egress.map(({ port, bind, captureMode, services }, index) => {
    return { port, bind, captureMode, services, index };
  });
  const [first] = egress;
  if (first === undefined) return EMPTY;
  const text = JSON.stringify([input, egress.map(({ services, ...rest }) => rest)]);
  const services = egress.map((each) => each.services);
  // Namespaces that see the same services share a plan.
  const entries = memos.weak<Egress['services'], PlanEntry[]>('plans').get(first.services, () => []);
  const known = entries.find((entry) => entry.text === text && services.every((each, i) => each === entry.services[i]));
  if (known !== undefined) return known.plan;
  const plan = makePlan(memos, egress, input);
  if (entries.length >= MAX_PLANS) entries.shift();
  entries.push({ text, services, plan });
  return plan;
}

function planInput(settings: ModelSettings, mesh: MeshConfig, view: OutboundView, scope: ScopeReader): PlanInput {
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
function hasPodListeners({ headlessPodListeners, edsForHeadless }: ModelSettings): boolean {
  return headlessPodListeners && !edsForHeadless;
}
