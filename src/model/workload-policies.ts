/**
 * Which request authentication and authorization policies hold for a workload: those of the root namespace for the whole mesh,
 * those of its own namespace, each with or without a selector. They add up; none replaces another. Those that name what they are for
 * (`targetRefs`) hold there and nowhere else. Source: specification "policy-resources", and Istio's security policy scopes.
 */
import { PMap } from '../core/pmap.ts';
import type { Resource, ResourceKey } from '../resources/types.ts';
import { keyOf } from '../resources/types.ts';
import { deepEqual } from './equal.ts';
import { type Labels, labelsMatch } from './labels.ts';
import { compareMeta } from './order.ts';
import type { PolicyChange } from './peer-authentication.ts';
import { type Changed, type State, tableOf } from './state.ts';
import type { WorkloadPolicies } from './types.ts';

const KINDS = ['RequestAuthentication', 'AuthorizationPolicy'] as const;
type PolicyKind = (typeof KINDS)[number];

interface Selecting {
  readonly key: ResourceKey;
  /** Empty: all workloads. */
  readonly selector: Labels;
  /** In its own namespace alone, also where that is the root namespace. */
  readonly near?: true;
}

type NamespacePolicies = Readonly<Record<PolicyKind, readonly Selecting[]>>;

/** Namespace → its policies, oldest first. */
export type PolicyTable = PMap<NamespacePolicies>;

const NO_POLICIES: NamespacePolicies = { RequestAuthentication: [], AuthorizationPolicy: [] };

export const EMPTY_POLICIES: PolicyTable = PMap.empty();

/** The policies after a change of resources (`state` has the new ones in its table), and whose selection may differ. */
export function updatePolicies(
  state: State,
  changed: readonly Changed[],
): { policies: PolicyTable; change: PolicyChange } {
  const touched = new Set<string>();
  for (const { before, after } of changed) {
    const side = after ?? before;
    if (side !== undefined && isPolicy(side.kind)) touched.add(side.meta.namespace);
  }
  if (touched.size === 0) return { policies: state.policies, change: new Set() };
  const edits: [string, NamespacePolicies | undefined][] = [];
  for (const [namespace, found] of policiesOfNamespaces(state, touched)) {
    const made = KINDS.every((kind) => found[kind].length === 0) ? undefined : found;
    if (!deepEqual(state.policies.get(namespace), made)) edits.push([namespace, made]);
  }
  const names = new Set(edits.map(([namespace]) => namespace));
  return {
    policies: edits.length > 0 ? state.policies.with(edits) : state.policies,
    change: names.has(state.settings.rootNamespace) ? 'all' : names,
  };
}

function isPolicy(kind: string): kind is PolicyKind {
  return KINDS.some((each) => each === kind);
}

function policiesOfNamespaces(state: State, names: ReadonlySet<string>): Map<string, NamespacePolicies> {
  const found = new Map([...names].map((name) => [name, { ...NO_POLICIES }] as const));
  for (const kind of KINDS) {
    const lists = new Map<string, Resource<PolicyKind>[]>([...names].map((name) => [name, []]));
    for (const policy of tableOf(state.resources, kind).values()) lists.get(policy.meta.namespace)?.push(policy);
    for (const [name, list] of lists) {
      const ordered = list.sort((a, b) => compareMeta(a.meta, b.meta));
      const selecting = ordered.flatMap((policy) => selectionsOf(policy));
      found.set(name, { ...(found.get(name) ?? NO_POLICIES), [kind]: selecting });
    }
  }
  return found;
}

/** What tells the workloads of a Gateway of the Kubernetes Gateway API. */
const GATEWAY_GROUP = 'gateway.networking.k8s.io';
const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';

/**
 * Whom a policy is for. What is targeted and cannot be had here (a waypoint's service, say) is nobody: a policy that was meant for one
 * thing must not allow anything elsewhere.
 */
function selectionsOf(policy: Resource<PolicyKind>): Selecting[] {
  const key = keyOf(policy);
  const { selector, targetRef, targetRefs } = policy.content;
  const targets = [...(targetRef === undefined ? [] : [targetRef]), ...(targetRefs ?? [])];
  if (targets.length === 0) return [{ key, selector: selector?.matchLabels ?? {} }];
  const gateways = targets.filter(
    ({ group, kind, namespace = '' }) =>
      group === GATEWAY_GROUP && kind === 'Gateway' && (namespace === '' || namespace === policy.meta.namespace),
  );
  const names = [...new Set(gateways.map(({ name }) => name))];
  return names.map((name) => ({ key, selector: { [GATEWAY_NAME]: name }, near: true }));
}

/** What holds for a workload: the mesh's first, then its namespace's, oldest first. */
export function policiesOf(state: State, namespace: string, labels: Labels): WorkloadPolicies {
  const { rootNamespace } = state.settings;
  const tables = [...new Set([rootNamespace, namespace])].map(
    (name) => [name, state.policies.get(name) ?? NO_POLICIES] as const,
  );
  const of = (kind: PolicyKind): ResourceKey[] =>
    tables.flatMap(([owner, table]) =>
      table[kind]
        .filter(({ selector, near }) => labelsMatch(selector, labels) && (near === undefined || owner === namespace))
        .map(({ key }) => key),
    );
  return { authentication: of('RequestAuthentication'), authorization: of('AuthorizationPolicy') };
}
