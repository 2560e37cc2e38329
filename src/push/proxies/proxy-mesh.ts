/**
 * Reads the mesh to determine the views of a proxy, and records each read as a fact; also computes which of these facts
 * a change affects. Only the views of proxies for which such a fact was read are determined again.
 */
import type { ProxyNode, SidecarConfiguration } from '../../core/proxy.ts';
import {
  changedLocalityNames,
  changedNeeds,
  comparedLabelsOfMesh,
  type Fact,
  fact,
  labelsForFailover,
  localityOfMesh,
  note,
  OTHER_CLUSTER,
  type PolicyNeeds,
  policyNeeds,
} from '../../generate/index.ts';
import {
  type BoundInstance,
  type ChangeSet,
  entryOfProxyKey,
  type Gateway,
  groupOfProxyKey,
  isEntryOfProxy,
  isPodOfProxy,
  labelsMatch,
  type NamedHosts,
  namedHosts,
  networkAddress,
  type ProxyNetwork,
  type ProxyOfEntry,
  type ProxyOfPod,
  podOfProxyKey,
  type Scope,
  type Snapshot,
  statedNetworks,
} from '../../model/index.ts';
import type { ReachedWorkload } from '../../policy/index.ts';
import {
  type AnyResource,
  type Resource,
  type ResourceKey,
  resourceKey,
  sidecarConfigurationOf,
} from '../../resources/index.ts';
import { placementText } from './envoy-filters.ts';

type Labels = Readonly<Record<string, string>>;

/** A workload as policies select it. */
export interface LabelledWorkload {
  readonly namespace: string;
  readonly labels: Labels;
}

const LOCALITIES: Fact = 'localities';
/** Whether endpoints are in a region, zone or subzone. */
const localityNamed = (name: string): Fact => `place ${name}`;
const GATEWAYS: Fact = 'Gateways';
const sidecarsOf = (namespace: string): Fact => `Sidecars of ${namespace}`;
const scopeFact = (id: string): Fact => `scope ${id}`;
const ruleLabelsOf = (id: string): Fact => `rule labels of ${id}`;
const sourceLabelsOf = (id: string): Fact => `source labels of ${id}`;
/** Whether a network is one of the mesh. */
const networkNamed = (name: string): Fact => `network ${name}`;
/** Whether some service has other addresses for the proxies of a cluster. */
const addressesIn = (cluster: string): Fact => `addresses in ${cluster}`;
/** Whether endpoints are in a cluster. */
const endpointsIn = (cluster: string): Fact => `endpoints in ${cluster}`;
const address = (key: string): Fact => `${ADDRESS}${key}`;
const peerAuthenticationOf = (workload: string): Fact => `peer authentication of ${workload}`;
const policiesOf = (workload: string): Fact => `policies of ${workload}`;
const policyNeedsOf = (workload: string): Fact => `needs of the policy component of ${workload}`;
const registered = (namespace: string): Fact => `workloads of ${namespace}`;
/** What the labels of a proxy depend on of its workload, or of the WorkloadGroup that it names. */
const labelsOf = (key: ResourceKey): Fact => `${LABELS}${key}`;

const ADDRESS = 'address ';
const LABELS = 'labels of ';

/** True for facts that each replica of a workload reads for itself; all others are the same for its replicas. */
export function isReadPerReplica(name: Fact): boolean {
  return name.startsWith(ADDRESS) || name.startsWith(LABELS);
}

/** The last workload's text: a proxy that connects has several facts of its workload noted one after the other. */
let last: LabelledWorkload & { readonly text: string } = { namespace: '', labels: {}, text: ' []' };

/** Namespace and labels as a string, equal for all replicas of a workload. */
export function workloadText({ namespace, labels }: LabelledWorkload): string {
  if (last.labels !== labels || last.namespace !== namespace) {
    const sorted = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
    last = { namespace, labels, text: `${namespace} ${JSON.stringify(sorted)}` };
  }
  return last.text;
}

/** The interface through which the mesh is read for a proxy; every read is recorded. */
export class ProxyMesh {
  readonly #snapshot: Snapshot;

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot;
  }

  /** Constant while the program runs, and so no fact. */
  get settings(): Snapshot['settings'] {
    return this.#snapshot.settings;
  }

  /** The trust domains of the mesh. When they change, everything does, so they are no fact. */
  get trustDomains(): readonly string[] {
    return [this.settings.trustDomain, ...this.#snapshot.mesh.trustDomainAliases];
  }

  get memos(): Snapshot['memos'] {
    return this.#snapshot.memos;
  }

  get networks(): Snapshot['networks'] {
    note(fact.MESH);
    return this.#snapshot.networks;
  }

  /** The network that a proxy states, if it is one of the mesh. */
  statedNetwork(proxy: ProxyNetwork): string | undefined {
    return statedNetworks(proxy).find((name) => {
      note(networkNamed(name));
      return this.#snapshot.networkNames.has(name);
    });
  }

  /** The class of this locality: the rules of the mesh do not distinguish localities of the same class. */
  localityOf(locality: string): string {
    note(LOCALITIES);
    const isKnown = (name: string): boolean => {
      note(localityNamed(name));
      return this.#snapshot.localityNames.has(name);
    };
    return localityOfMesh(this.#snapshot, isKnown, locality);
  }

  /** The labels of a proxy that decide which endpoints it prefers. */
  failoverLabels(proxy: Pick<ProxyNode, 'labels' | 'locality' | 'network'>): Labels | undefined {
    note(LOCALITIES);
    return labelsForFailover(comparedLabelsOfMesh(this.#snapshot), proxy);
  }

  /** The cluster of a proxy if its proxies use other addresses for some service. */
  addressCluster(clusterId: string): string | undefined {
    if (clusterId === '' || clusterId === this.settings.clusterId) return undefined;
    note(addressesIn(clusterId));
    return this.#snapshot.addressClusters.has(clusterId) ? clusterId : undefined;
  }

  /**
   * The class of a proxy's cluster: see `Placement`. If proxies of other clusters are served, an unknown cluster counts
   * as a remote one; otherwise as a wrong name of the local one.
   */
  endpointCluster(clusterId: string): string {
    if (clusterId === '' || clusterId === this.settings.clusterId) return '';
    note(endpointsIn(clusterId));
    if (this.#snapshot.endpointClusters.has(clusterId)) return clusterId;
    return this.settings.servesOtherClusters ? OTHER_CLUSTER : '';
  }

  scopeOf(namespace: string, labels: Labels): Pick<Scope, 'id'> {
    const { id, sidecar } = this.#snapshot.scopeOf(namespace, labels);
    note(sidecarsOf(namespace));
    // Sidecars of the root namespace only apply if the namespace has none.
    if (sidecar?.split('/')[1] !== namespace) note(sidecarsOf(this.settings.rootNamespace));
    return { id };
  }

  /** The hosts that the Sidecar of a scope names; undefined without a Sidecar. */
  namedHosts(scope: string): NamedHosts | undefined {
    note(scopeFact(scope));
    const key = this.#snapshot.scopeById(scope)?.sidecar;
    const sidecar = key === undefined ? undefined : this.#snapshot.resources('Sidecar').get(key);
    return sidecar && namedHosts(sidecar);
  }

  /** What the Namespace states for its sidecars. */
  sidecarsOfNamespace(namespace: string): SidecarConfiguration | undefined {
    const key = resourceKey('Namespace', '', namespace);
    note(fact.resource(key));
    const found = this.#snapshot.resources('Namespace').get(key);
    return found && sidecarConfigurationOf(found.meta);
  }

  ingressOf(scope: string): Scope['ingress'] {
    note(scopeFact(scope));
    return this.#snapshot.scopeById(scope)?.ingress;
  }

  sourceLabels(scope: string): readonly string[] {
    note(sourceLabelsOf(scope));
    return this.#snapshot.sourceLabels(scope);
  }

  /** The labels of a proxy by which destination rules select it; undefined if there are none. */
  ruleLabels(scope: Scope | undefined, labels: Labels): Labels | undefined {
    if (scope === undefined) return undefined;
    note(ruleLabelsOf(scope.id));
    const picked = pick(labels, this.#snapshot.ruleLabels(scope));
    return Object.keys(picked).length === 0 ? undefined : picked;
  }

  scopeById(id: string): Scope | undefined {
    return this.#snapshot.scopeById(id);
  }

  gatewayScope(namespace: string): Scope {
    return this.#snapshot.gatewayScope(namespace);
  }

  /** The service instances at an address of a proxy, with the namespaces of the services. */
  instancesAt(
    proxy: ProxyNetwork,
    at: string,
  ): readonly (BoundInstance & { readonly namespace: string | undefined })[] {
    for (const said of statedNetworks(proxy)) note(networkNamed(said));
    const network = this.#snapshot.networkOfProxy(proxy, at);
    note(address(networkAddress(network, at)));
    const { services } = this.#snapshot;
    return this.#snapshot.instancesAt(network, at).map((instance) => {
      return { ...instance, namespace: services.get(instance.service)?.namespace };
    });
  }

  peerAuthenticationOf(namespace: string, labels: Labels): ReturnType<Snapshot['peerAuthenticationOf']> {
    note(peerAuthenticationOf(workloadText({ namespace, labels })));
    return this.#snapshot.peerAuthenticationOf(namespace, labels);
  }

  policiesOf(namespace: string, labels: Labels): ReturnType<Snapshot['policiesOf']> {
    note(policiesOf(workloadText({ namespace, labels })));
    return this.#snapshot.policiesOf(namespace, labels);
  }

  /** What rules make the proxy ask the policy component for; nothing without the plugin `policy`. */
  policyNeeds(proxy: LabelledWorkload, reached: ReachedWorkload): PolicyNeeds {
    if (!this.settings.plugins.includes('policy')) return {};
    note(policyNeedsOf(workloadText(proxy)));
    return policyNeeds(this.#snapshot, reached);
  }

  telemetryOf(namespace: string, labels: Labels): readonly ResourceKey[] {
    note(policiesOf(workloadText({ namespace, labels })));
    return this.#snapshot.telemetryOf(namespace, labels);
  }

  envoyFiltersOf(workload: LabelledWorkload): readonly Resource<'EnvoyFilter'>[] {
    note(policiesOf(workloadText(workload)));
    const filters = this.#snapshot.resources('EnvoyFilter');
    return this.#snapshot.envoyFiltersOf(workload.namespace, workload.labels).flatMap((key) => {
      note(fact.resource(key));
      return filters.get(key) ?? [];
    });
  }

  gatewaysFor(namespace: string, labels: Labels): readonly Gateway[] {
    note(GATEWAYS);
    return this.#snapshot.gatewaysFor(namespace, labels);
  }

  /** The Pod of a proxy; undefined if the registry does not have it, or not with what the proxy states. */
  podOf(proxy: ProxyOfPod): Resource<'Pod'> | undefined {
    const key = podOfProxyKey(this.settings, proxy);
    note(labelsOf(key));
    const found = this.#snapshot.resources('Pod').get(key);
    return found !== undefined && isPodOfProxy(found, proxy) ? found : undefined;
  }

  /** The WorkloadEntry as which a machine is registered; undefined without one that agrees with its proxy. */
  entryOf(proxy: ProxyOfEntry): Resource<'WorkloadEntry'> | undefined {
    const groupKey = groupOfProxyKey(proxy);
    note(labelsOf(groupKey));
    const key = entryOfProxyKey(proxy, this.#snapshot.resources('WorkloadGroup').get(groupKey));
    if (key === undefined) return undefined;
    note(labelsOf(key));
    const found = this.#snapshot.resources('WorkloadEntry').get(key);
    return found !== undefined && isEntryOfProxy(found, proxy) ? found : undefined;
  }

  registeredLabels(namespace: string, serviceAccount: string): readonly Labels[] {
    note(registered(namespace));
    return this.#snapshot.registeredLabels(namespace, serviceAccount);
  }
}

/** The facts about labels of proxies that differ for a scope. */
function* changedLabels(previous: Snapshot, next: Snapshot, id: string): Generator<Fact> {
  if (ruleLabelsIn(previous, id) !== ruleLabelsIn(next, id)) yield ruleLabelsOf(id);
  if (previous.sourceLabels(id).join('\n') !== next.sourceLabels(id).join('\n')) yield sourceLabelsOf(id);
}

function ruleLabelsIn(snapshot: Snapshot, id: string): string {
  const scope = snapshot.scopeById(id);
  return scope === undefined ? '' : snapshot.ruleLabels(scope).join('\n');
}

function sidecarsIn(namespace: AnyResource | undefined): SidecarConfiguration | undefined {
  return namespace && sidecarConfigurationOf(namespace.meta);
}

/** The labels of a proxy that are among these `key=value` strings. */
export function pick(labels: Labels, asked: readonly string[]): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const label of asked) {
    // Keys have no `=`
    // (https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set).
    const [key = ''] = label.split('=', 1);
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    if (value !== undefined && label === `${key}=${value}`) picked[key] = value;
  }
  return picked;
}

/** The facts about changed documents. */
function* changedConfigs({ configs }: ChangeSet): Generator<Fact> {
  for (const [key, { before, after }] of configs) {
    const [kind, namespace = ''] = key.split('/');
    if (kind === 'EnvoyFilter' && placementText(before) !== placementText(after)) yield fact.resource(key);
    if (kind === 'Namespace' && sidecarsIn(before) !== sidecarsIn(after)) yield fact.resource(key);
    if (kind === 'Sidecar') yield sidecarsOf(namespace);
    if (kind === 'Gateway') yield GATEWAYS;
  }
}

/** The names that only one of the sets has; equal sets are usually the same object. */
function changedNames(before: ReadonlySet<string>, after: ReadonlySet<string>): Iterable<string> {
  return before === after ? [] : before.symmetricDifference(after);
}

/**
 * The facts that a change affects; undefined if all may have changed. @param workloads the existing workloads, by their
 * string form
 */
export function changedProxyFacts(
  previous: Snapshot,
  next: Snapshot,
  changes: ChangeSet,
  workloads: () => Iterable<readonly [text: string, workload: LabelledWorkload]>,
): ReadonlySet<Fact> | undefined {
  if (changes.everything) return undefined;
  const facts = new Set<Fact>();
  // Everyone who may write a WorkloadEntry can add and remove localities and networks. Such a change only affects
  // proxies for which the name was looked up.
  const places = changedLocalityNames(previous, next);
  if (places === undefined) facts.add(LOCALITIES);
  for (const name of places ?? []) facts.add(localityNamed(name));
  for (const name of changedNames(previous.networkNames, next.networkNames)) facts.add(networkNamed(name));
  for (const id of changedNames(previous.addressClusters, next.addressClusters)) facts.add(addressesIn(id));
  for (const id of changedNames(previous.endpointClusters, next.endpointClusters)) facts.add(endpointsIn(id));
  for (const key of changes.addresses) facts.add(address(key));
  for (const namespace of changes.workloads) facts.add(registered(namespace));
  for (const key of changes.labelled) facts.add(labelsOf(key));
  for (const [id, { everything }] of changes.scopes) {
    if (everything) facts.add(scopeFact(id));
    for (const changed of changedLabels(previous, next, id)) facts.add(changed);
  }
  for (const changed of changedConfigs(changes)) facts.add(changed);
  for (const [selections, factOf] of [
    [changes.peerAuthentication, peerAuthenticationOf],
    [changes.policies, policiesOf],
  ] as const) {
    if (selections.length === 0) continue;
    for (const [text, { namespace, labels }] of workloads()) {
      const isSelected = selections.some(
        (each) => (each.namespace === undefined || each.namespace === namespace) && labelsMatch(each.labels, labels),
      );
      if (isSelected) facts.add(factOf(text));
    }
  }
  const isChanged = changedNeeds(previous, next, changes.configs.keys());
  if (isChanged !== undefined)
    for (const [text, workload] of workloads()) if (isChanged(workload)) facts.add(policyNeedsOf(text));
  return facts;
}
