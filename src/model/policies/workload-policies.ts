/**
 * Which request authentication and authorization policies and EnvoyFilters apply to a workload: those of the root
 * namespace (for the whole mesh) and those of its own namespace, each with or without a selector. All of them apply;
 * none replaces another. Those with targets (`targetRefs`) apply to these only. Source: Istio's reference of its
 * security policies.
 */
import { PMap } from '../../core/pmap.ts';
import { type AnyResource, GATEWAY_GROUP, keyOf, type ResourceKey } from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import { type Labels, labelsMatch } from '../common/labels.ts';
import { compareCreated, compareText } from '../common/order.ts';
import type { ChangeSet, ModelSettings, WorkloadPolicies, WorkloadSelection } from '../types/types.ts';

const KINDS = ['RequestAuthentication', 'AuthorizationPolicy', 'EnvoyFilter', 'Telemetry'] as const;
type PolicyKind = (typeof KINDS)[number];

interface Selecting {
  readonly key: ResourceKey;
  /** Metadata of the policy, for the order of precedence. */
  readonly created?: number;
  /** Empty: all workloads. */
  readonly selector: Labels;
  /** Whether it only applies in its own namespace, even if this is the root namespace. */
  readonly ownNamespaceOnly?: true;
}

type NamespacePolicies = Readonly<Record<PolicyKind, readonly Selecting[]>>;

/** Namespace → its policies, oldest first. */
export type PolicyTable = PMap<NamespacePolicies>;

const NO_POLICIES: NamespacePolicies = {
  RequestAuthentication: [],
  AuthorizationPolicy: [],
  EnvoyFilter: [],
  Telemetry: [],
};

export const EMPTY_POLICIES: PolicyTable = PMap.empty();

/** The parts of the registry stage that these functions read. */
interface PolicySources {
  readonly settings: Pick<ModelSettings, 'rootNamespace'>;
  readonly policies: PolicyTable;
}

/**
 * The policies after a change of resources, and the workloads whose policies may differ. The cost follows the policies
 * of the namespaces concerned.
 */
export function updatePolicies(
  state: PolicySources,
  changed: ChangeSet['configs'],
): { policies: PolicyTable; change: readonly WorkloadSelection[] } {
  const change: WorkloadSelection[] = [];
  const { rootNamespace } = state.settings;
  const edits = new Map<string, Map<PolicyKind, Map<ResourceKey, Selecting[]>>>();
  for (const [key, { before, after }] of changed) {
    const [was, is] = [policyOf(before), policyOf(after)];
    const side = is ?? was;
    if (side === undefined) continue;
    const selections = is === undefined ? [] : selectionsOf(is);
    // This table has the selectors of policies, not their content.
    if (deepEqual(was === undefined ? [] : selectionsOf(was), selections)) continue;
    const { namespace } = side.meta;
    for (const { selector, ownNamespaceOnly } of [...(was === undefined ? [] : selectionsOf(was)), ...selections]) {
      const everywhere = namespace === rootNamespace && ownNamespaceOnly === undefined;
      change.push({ namespace: everywhere ? undefined : namespace, labels: selector });
    }
    const kinds = edits.get(namespace) ?? new Map<PolicyKind, Map<ResourceKey, Selecting[]>>();
    edits.set(namespace, kinds);
    kinds.set(side.kind, (kinds.get(side.kind) ?? new Map<ResourceKey, Selecting[]>()).set(key, selections));
  }
  if (edits.size === 0) return { policies: state.policies, change };
  const policies = state.policies.with(
    [...edits].map(([namespace, kinds]) => {
      const made = { ...(state.policies.get(namespace) ?? NO_POLICIES) };
      for (const [kind, selections] of kinds) made[kind] = replaced(made[kind], selections);
      return [namespace, KINDS.every((kind) => made[kind].length === 0) ? undefined : made] as const;
    }),
  );
  return { policies, change };
}

type Policy = Extract<AnyResource, { readonly kind: PolicyKind }>;

function policyOf(resource: AnyResource | undefined): Policy | undefined {
  return (KINDS as readonly string[]).includes(resource?.kind ?? '') ? (resource as Policy) : undefined;
}

/** A namespace's policies of one kind after replacing some of them, oldest first. */
function replaced(list: readonly Selecting[], by: ReadonlyMap<ResourceKey, readonly Selecting[]>): Selecting[] {
  return [...list.filter(({ key }) => !by.has(key)), ...[...by.values()].flat()].sort(
    (a, b) => compareCreated(a.created, b.created) || compareText(a.key, b.key),
  );
}

/** Label of the workloads of a Gateway of the Kubernetes Gateway API. */
export const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';

/**
 * The workloads that a policy is for. An unsupported target (such as a Service with a waypoint) selects no workload: a
 * policy for one target must not allow anything elsewhere.
 */
function selectionsOf(policy: Policy): Selecting[] {
  const { created } = policy.meta;
  const of = { key: keyOf(policy), ...(created !== undefined && { created }) };
  const targets = targetsOf(policy);
  if (targets.length === 0) {
    const selector = selectorOf(policy) ?? {};
    // In the root namespace, a Telemetry document with a selector only applies to workloads there.
    const own = policy.kind === 'Telemetry' && Object.keys(selector).length > 0;
    return [{ ...of, selector, ...(own && { ownNamespaceOnly: true }) }];
  }
  const gateways = targets.filter(
    ({ group, kind, namespace = '' }) =>
      group === GATEWAY_GROUP && kind === 'Gateway' && (namespace === '' || namespace === policy.meta.namespace),
  );
  const names = [...new Set(gateways.map(({ name }) => name))];
  return names.map((name) => ({ ...of, selector: { [GATEWAY_NAME]: name }, ownNamespaceOnly: true }));
}

function targetsOf({ kind, content }: Policy) {
  const { targetRefs = [] } = content;
  return kind === 'EnvoyFilter' || content.targetRef === undefined ? targetRefs : [content.targetRef, ...targetRefs];
}

function selectorOf({ kind, content }: Policy): Labels | undefined {
  return kind === 'EnvoyFilter' ? content.workloadSelector?.labels : content.selector?.matchLabels;
}

/** The policies for a workload: first those of the mesh, then those of its namespace, each oldest first. */
export function policiesOf(state: PolicySources, namespace: string, labels: Labels): WorkloadPolicies {
  return {
    authentication: selectedOf(state, 'RequestAuthentication', namespace, labels),
    authorization: selectedOf(state, 'AuthorizationPolicy', namespace, labels),
  };
}

/** The EnvoyFilters for a workload: first those of the mesh, then those of its namespace, each oldest first. */
export function envoyFiltersOf(state: PolicySources, namespace: string, labels: Labels): readonly ResourceKey[] {
  return selectedOf(state, 'EnvoyFilter', namespace, labels);
}

/**
 * The Telemetry documents for a workload, from the widest to the narrowest scope: at most one of the root namespace, of
 * the workload's namespace, and with a selector or target there. If there are several, the oldest applies.
 */
export function telemetryOf(state: PolicySources, namespace: string, labels: Labels): readonly ResourceKey[] {
  const { rootNamespace } = state.settings;
  const documents = (owner: string) => (state.policies.get(owner) ?? NO_POLICIES).Telemetry;
  const isWide = ({ selector }: Selecting): boolean => Object.keys(selector).length === 0;
  const wide = [...new Set([rootNamespace, namespace])].map((owner) => documents(owner).find(isWide));
  const narrow = documents(namespace).find((each) => !isWide(each) && labelsMatch(each.selector, labels));
  return [...wide, narrow].flatMap((found) => found?.key ?? []);
}

function selectedOf(state: PolicySources, kind: PolicyKind, namespace: string, labels: Labels): ResourceKey[] {
  const { rootNamespace } = state.settings;
  return [...new Set([rootNamespace, namespace])].flatMap((owner) =>
    (state.policies.get(owner) ?? NO_POLICIES)[kind]
      .filter(
        ({ selector, ownNamespaceOnly }) =>
          labelsMatch(selector, labels) && (ownNamespaceOnly === undefined || owner === namespace),
      )
      .map(({ key }) => key),
  );
}
