/**
 * Peer authentication: which transport the policies in force require of a workload. Policies without selector apply to
 * a namespace, or in the root namespace to the whole mesh; those with a selector to matching workloads of their
 * namespace. The narrower level takes precedence, and within a level the oldest policy; unset modes are inherited from
 * the wider level. Source: Istio's reference of PeerAuthentication. The substitute of a refused policy takes precedence
 * over all others of its level, and over narrower ones if the policy's selector is unknown.
 */
import { PMap } from '../../core/pmap.ts';
import type { Resource, ResourceChange } from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import { isEmptySelector, type Labels, labelsMatch } from '../common/labels.ts';
import { compareMeta } from '../common/order.ts';
import { ofKind, type ResourceTables, tableOf } from '../common/tables.ts';
import type {
  ModelSettings,
  MutualTlsMode,
  PeerAuthentication,
  RegistryKind,
  WorkloadSelection,
} from '../types/types.ts';

type Policy = Resource<'PeerAuthentication'>;

/** A policy for some workloads of its namespace. Undefined modes inherit. */
interface WorkloadPolicy {
  readonly selector: Labels;
  readonly mode: MutualTlsMode | undefined;
  /** Container port → mode. */
  readonly ports: Readonly<Record<number, MutualTlsMode>>;
}

interface NamespacePolicies {
  /** Mode of the policy without selector; unset in the root namespace, where this policy applies to the mesh. */
  readonly mode: MutualTlsMode | undefined;
  /** Oldest first. */
  readonly workloads: readonly WorkloadPolicy[];
}

export interface PeerPolicies {
  /** The mode if no narrower policy applies. */
  readonly mesh: MutualTlsMode;
  readonly namespaces: PMap<NamespacePolicies>;
  /**
   * Set if a refused policy may apply to any workload of the mesh: mutual TLS is then required everywhere, whatever
   * narrower policies say.
   */
  readonly strict?: true;
}

/** Without policies, plain text and mutual TLS are accepted. */
const DEFAULT_MODE: MutualTlsMode = 'PERMISSIVE';
const NO_PORTS: PeerAuthentication['ports'] = {};
const NO_WORKLOADS: readonly WorkloadPolicy[] = [];

export const NO_PEER_POLICIES: PeerPolicies = { mesh: DEFAULT_MODE, namespaces: PMap.empty() };

/** Namespaces whose workloads may have different policies; `all` if the policy of the mesh changed. */
export type PolicyChange = 'all' | ReadonlySet<string>;

/** The parts of the registry stage that these functions read. */
interface PolicySources {
  readonly settings: Pick<ModelSettings, 'rootNamespace'>;
  readonly resources: ResourceTables<RegistryKind>;
  readonly peerPolicies: PeerPolicies;
}

/** The policies after a change of resources (`state` already has the new ones), and the namespaces with differences. */
export function updatePeerPolicies(
  state: PolicySources,
  changed: readonly ResourceChange[],
): { policies: PeerPolicies; change: PolicyChange; selections: readonly WorkloadSelection[] } {
  const touched = new Set<string>();
  for (const { before, after } of changed) {
    const side = after ?? before;
    if (side?.kind === 'PeerAuthentication') touched.add(side.meta.namespace);
  }
  const { peerPolicies: before, settings } = state;
  if (touched.size === 0) return { policies: before, change: new Set(), selections: [] };
  const byNamespace = new Map<string, Policy[]>([...touched].map((namespace) => [namespace, []]));
  for (const policy of tableOf(state.resources, 'PeerAuthentication').values()) {
    byNamespace.get(policy.meta.namespace)?.push(policy);
  }
  let { mesh, strict } = before;
  const edits: [string, NamespacePolicies | undefined][] = [];
  for (const [namespace, policies] of byNamespace) {
    policies.sort((a, b) => substitutesFirst(a, b) || compareMeta(a.meta, b.meta));
    const wide = modeOf(policies.find(isForAll)?.content.mtls?.mode);
    const isRoot = namespace === settings.rootNamespace;
    const overrides = policies.some(({ meta }) => meta.substitute === 'overrides');
    if (isRoot) {
      mesh = wide ?? DEFAULT_MODE;
      strict = overrides ? true : undefined;
    }
    const mode = isRoot ? undefined : wide;
    const workloads = overrides ? [] : policies.filter((policy) => !isForAll(policy)).map(workloadPolicy);
    const made = mode === undefined && workloads.length === 0 ? undefined : { mode, workloads };
    if (!deepEqual(before.namespaces.get(namespace), made)) edits.push([namespace, made]);
  }
  const everywhere = mesh !== before.mesh || strict !== before.strict;
  const policies = { mesh, namespaces: before.namespaces.with(edits), ...(strict && { strict }) };
  const change: PolicyChange = everywhere ? 'all' : new Set(edits.map(([namespace]) => namespace));
  return {
    policies: everywhere || edits.length > 0 ? policies : before,
    change,
    selections: selectionsOf(changed, change, settings.rootNamespace),
  };
}

/** The selectors of changed policies, before and after, if the effect on workloads differs. */
function selectionsOf(
  changed: readonly ResourceChange[],
  change: PolicyChange,
  rootNamespace: string,
): readonly WorkloadSelection[] {
  const selections: WorkloadSelection[] = [];
  for (const { before, after } of changed) {
    const sides = [ofKind(before, 'PeerAuthentication'), ofKind(after, 'PeerAuthentication')];
    for (const policy of sides) {
      if (policy === undefined) continue;
      const { namespace } = policy.meta;
      if (change !== 'all' && !change.has(namespace)) continue;
      const all = policy.meta.substitute === 'overrides' || isForAll(policy);
      const labels = all ? {} : (policy.content.selector?.matchLabels ?? {});
      selections.push({ namespace: all && namespace === rootNamespace ? undefined : namespace, labels });
    }
  }
  return selections;
}

function substitutesFirst({ meta: a }: Policy, { meta: b }: Policy): number {
  return Number(b.substitute !== undefined) - Number(a.substitute !== undefined);
}

function isForAll({ content }: Policy): boolean {
  return isEmptySelector(content.selector?.matchLabels);
}

function workloadPolicy({ content }: Policy): WorkloadPolicy {
  const ports: Record<number, MutualTlsMode> = {};
  for (const [port, settings] of Object.entries(content.portLevelMtls ?? {})) {
    const mode = modeOf(settings.mode);
    if (mode !== undefined) ports[Number(port)] = mode;
  }
  return { selector: content.selector?.matchLabels ?? {}, mode: modeOf(content.mtls?.mode), ports };
}

function modeOf(written: 'UNSET' | MutualTlsMode | undefined): MutualTlsMode | undefined {
  return written === 'UNSET' ? undefined : written;
}

/**
 * The effective peer authentication of a workload. The ports are those that the policies name; they apply only where a
 * service serves them.
 */
export function peerAuthenticationOf(policies: PeerPolicies, namespace: string, labels: Labels): PeerAuthentication {
  if (policies.strict) return { mode: 'STRICT', ports: NO_PORTS };
  const own = policies.namespaces.get(namespace);
  const workload = (own?.workloads ?? NO_WORKLOADS).find(({ selector }) => labelsMatch(selector, labels));
  return {
    mode: workload?.mode ?? own?.mode ?? policies.mesh,
    ports: workload?.ports ?? NO_PORTS,
  };
}

/** The mode of one container port that is bound to a service. */
export function modeOfPort({ mode, ports }: PeerAuthentication, port: number): MutualTlsMode {
  return ports[port] ?? mode;
}

/**
 * Namespaces whose change affects clients, which only depend on whether mutual TLS is disabled; `all` if that changed
 * for the mesh.
 */
export function clientChange(before: PeerPolicies, after: PeerPolicies, change: PolicyChange): PolicyChange {
  if (change === 'all') {
    if ((before.mesh === 'DISABLE') !== (after.mesh === 'DISABLE') || before.strict !== after.strict) return 'all';
    const names = new Set([...before.namespaces.keys(), ...after.namespaces.keys()]);
    return differing(before, after, names);
  }
  return differing(before, after, change);
}

function differing(before: PeerPolicies, after: PeerPolicies, names: Iterable<string>): ReadonlySet<string> {
  const found = new Set<string>();
  for (const name of names) {
    const [was, is] = [before, after].map((policies) => whatClientsCareFor(policies, name));
    if (!deepEqual(was, is)) found.add(name);
  }
  return found;
}

function whatClientsCareFor({ mesh, namespaces, strict }: PeerPolicies, namespace: string): unknown {
  if (strict) return undefined;
  const own = namespaces.get(namespace);
  const base = own?.mode ?? mesh;
  return {
    off: base === 'DISABLE',
    workloads: (own?.workloads ?? NO_WORKLOADS).map(({ selector, mode, ports }) => ({
      selector,
      off: (mode ?? base) === 'DISABLE',
      ports: Object.entries(ports).map(([port, ofPort]) => [port, ofPort === 'DISABLE']),
    })),
  };
}
