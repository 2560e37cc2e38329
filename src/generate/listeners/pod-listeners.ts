/**
 * Listeners for the pods of headless services, whose addresses are known. The addresses of pods belong to their
 * namespaces: a service of another namespace applies only to callers of that namespace. An address that is not that of
 * a Pod belongs to the older document, which may define a headless service or an external service.
 */
import { compareCreated, compareText, type Endpoint, type Service } from '../../model/index.ts';
import { addressKey, hasFamilyOf, isIpAddress } from '../common/index.ts';
import type { OutboundListenerPlan, OutboundPortPlan, PodTarget } from '../listener-plans/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { OutboundView } from '../views.ts';
import { foreignNamespaces } from './workload-chains.ts';

/** The services of a Pod. Services in its own namespace come first, so that their routes are used. */
interface PodTargets {
  readonly own: PodTarget[];
  readonly others: PodTarget[];
}

/**
 * A listener for each Pod, which replaces a listener of the plan with the same address. Pods of other clusters have
 * listeners even if the service is cluster-local: its name does not resolve to them, but a caller with the address of a
 * Pod can reach it with mutual TLS.
 */
export function podListeners(
  snapshot: MeshReader,
  view: OutboundView,
  plan: OutboundPortPlan,
  port: number,
): OutboundListenerPlan[] {
  if (plan.podTargets.length === 0) return [];
  const isForeign = foreignNamespaces(snapshot, view.namespace);
  const planned = new Map(plan.listeners.map((listener) => [listener.bind, listener]));
  const isTaken = (address: string, headless: Service) => {
    const written = plan.written.get(addressKey(address));
    if (written === undefined || written.namespace === headless.namespace) return planned.has(address);
    return compareCreated(written.created, headless.created) <= 0;
  };
  const byAddress = new Map<string, PodTargets>();
  for (const podTarget of plan.podTargets) {
    const { service, port: number } = podTarget.target;
    const mayDecide = !isForeign(service.namespace);
    const name = service.ports.find((candidate) => candidate.port === number)?.name;
    for (const endpoint of snapshot.carriedEndpoints.get(service.key) ?? []) {
      const { address, servicePort } = endpoint;
      if (servicePort !== name || !isIpAddress(address) || !hasFamilyOf(view, address)) continue;
      if (endpoint.addressOfOthers === true && !mayDecide) continue;
      const targets = byAddress.get(address) ?? { own: [], others: [] };
      const list = isOwn(endpoint, service.namespace) ? targets.own : targets.others;
      if (list.includes(podTarget) || isTaken(address, service)) continue;
      list.push(podTarget);
      byAddress.set(address, targets);
    }
  }
  return [...byAddress]
    .map(([address, { own, others }]) => podListener(address, port, [...own, ...others], planned.get(address)))
    .sort((a, b) => compareText(a.bind, b.bind));
}

function isOwn({ workload }: Endpoint, namespace: string): boolean {
  return workload?.namespace === namespace;
}

/** The first service decides whether HTTP is detected. Services of a listener that it replaces come last. */
function podListener(
  address: string,
  port: number,
  targets: readonly PodTarget[],
  replaced: OutboundListenerPlan | undefined,
): OutboundListenerPlan {
  const [first] = targets;
  return {
    bind: address,
    extraBind: undefined,
    port,
    bindToPort: false,
    http: first?.http,
    undeclared: false,
    tcp: [...targets.map(({ target }) => target), ...(replaced?.tcp ?? [])],
    egress: first?.egress ?? 0,
  };
}
