/** Decides which listeners a route attaches to. */
import type { LabelSelector, ParentReference, ResourceMeta } from '../../../resources/index.ts';
import type { Complaint } from '../conditions.ts';
import type { Documents } from '../documents.ts';
import { commonHostnames } from '../listeners/hostnames.ts';
import {
  type AllowedNamespaces,
  type GatewayPlan,
  type PlannedListener,
  planFact,
  type RouteKind,
} from '../listeners/listeners.ts';
import { GATEWAY_GROUP } from '../references.ts';

/** The parts of a route that attachment reads. */
export interface AttachableRoute {
  readonly kind: RouteKind;
  readonly meta: ResourceMeta;
  readonly parentRefs: readonly ParentReference[];
  readonly hostnames: readonly string[] | undefined;
}

export interface Attachment {
  readonly gateway: GatewayPlan;
  readonly listener: PlannedListener;
  /** The hostnames of the route at that listener. */
  readonly hostnames: readonly string[];
}

export interface ParentResult {
  readonly reference: ParentReference;
  readonly attachments: readonly Attachment[];
  /** Why the route is not attached. */
  readonly complaint: Complaint | undefined;
}

/**
 * @param planOf returns the plan of a Gateway; undefined if it does not exist or belongs to another controller
 */
export function attach(
  documents: Documents,
  route: AttachableRoute,
  planOf: (namespace: string, name: string) => GatewayPlan | undefined,
): readonly ParentResult[] {
  return route.parentRefs.flatMap((reference): ParentResult[] => {
    const { group = GATEWAY_GROUP, kind = 'Gateway', name, namespace = route.meta.namespace } = reference;
    if (group !== GATEWAY_GROUP || kind !== 'Gateway') return [];
    documents.note(planFact(namespace, name));
    const gateway = planOf(namespace, name);
    return gateway === undefined ? [] : [attachTo(documents, route, reference, gateway)];
  });
}

function attachTo(
  documents: Documents,
  route: AttachableRoute,
  reference: ParentReference,
  gateway: GatewayPlan,
): ParentResult {
  const failed = (reason: string, message: string): ParentResult => ({
    reference,
    attachments: [],
    complaint: { reason, message },
  });
  const { sectionName, port } = reference;
  const meant = gateway.listeners.filter(
    (listener) => (sectionName ?? listener.name) === listener.name && (port ?? listener.port) === listener.port,
  );
  if (meant.length === 0) return failed('NoMatchingParent', 'the Gateway has no such listener');
  const allowing = meant.filter(
    ({ kinds, namespaces }) =>
      kinds.includes(route.kind) && allows(documents, namespaces, gateway, route.meta.namespace),
  );
  if (allowing.length === 0) {
    return failed('NotAllowedByListeners', `no listener allows ${route.kind}s of namespace ${route.meta.namespace}`);
  }
  const attachments = allowing.flatMap((listener): Attachment[] => {
    const hostnames = commonHostnames(listener.hostname, route.hostnames);
    return hostnames.length === 0 ? [] : [{ gateway, listener, hostnames }];
  });
  if (attachments.length > 0) return { reference, attachments, complaint: undefined };
  return failed('NoMatchingListenerHostname', 'no listener has a hostname of the route');
}

function allows(documents: Documents, allowed: AllowedNamespaces, gateway: GatewayPlan, namespace: string): boolean {
  if (allowed === 'All') return true;
  if (allowed === 'None') return false;
  if (allowed === 'Same') return namespace === gateway.namespace;
  const labels = documents.get('Namespace', '', namespace)?.meta.labels ?? {};
  return selects(allowed, { [NAME_LABEL]: namespace, ...labels });
}

/** Every Namespace has it (Kubernetes documentation, "Automatic labelling"), including those that no file defines. */
const NAME_LABEL = 'kubernetes.io/metadata.name';

/** An unknown operator selects nothing. */
export function selects(
  { matchLabels = {}, matchExpressions = [] }: LabelSelector,
  labels: Readonly<Record<string, string>>,
): boolean {
  if (!Object.entries(matchLabels).every(([key, value]) => labels[key] === value)) return false;
  return matchExpressions.every(({ key, operator, values = [] }) => {
    const value = labels[key];
    switch (operator) {
      case 'In':
        return value !== undefined && values.includes(value);
      case 'NotIn':
        return value === undefined || !values.includes(value);
      case 'Exists':
        return value !== undefined;
      case 'DoesNotExist':
        return value === undefined;
      default:
        return false;
    }
  });
}
