/**
 * The first step of a change: indexes of pods, workload entries, slices and definers, and which services have to be
 * recomputed because something that they depend on changed.
 */
import type { Slices } from '../../core/slices.ts';
import type { AnyResource, Resource, ResourceChange, ResourceKey } from '../../resources/index.ts';
import { isApiServerKey } from '../addresses/address-owners.ts';
import { changedAllocations, nextAllocatedAddresses } from '../addresses/allocated-addresses.ts';
import { GroupEdits, membersOf } from '../common/groups.ts';
import { type Labels, labelsMatch } from '../common/labels.ts';
import { addressId } from '../common/networks.ts';
import { ofKind, tableOf } from '../common/tables.ts';
import { bareAddresses, type EndpointsDocument, serviceOfEndpoints } from '../endpoints/endpoint-documents.ts';
import { selectionId, workloadSelectorOf } from '../endpoints/endpoints.ts';
import { nextWorkloadRanges, nodeAddresses } from '../endpoints/workload-ranges.ts';
import { clientChange, type PolicyChange } from '../policies/peer-authentication.ts';
import { definedKeys, orchestratorServiceKey } from '../services/definitions.ts';
import { nextRemoteVirtualIps, virtualIps } from '../services/virtual-ips.ts';
import type { ModelSettings, ServiceKey } from '../types/types.ts';
import {
  ADDRESS_READ,
  addressesOfNode,
  entryLabels,
  nodeLocality,
  ownAddresses,
  POLICY_READ,
  podAddresses,
} from '../workloads/workloads.ts';
import type { AffectedParts } from './service-record.ts';
import type { State } from './state.ts';

function namespaceOf(resource: AnyResource | undefined): string[] {
  return resource === undefined ? [] : [resource.meta.namespace];
}

/** The addresses for which a resource is in `addressOwners`. */
function ownedIds(resource: AnyResource | undefined, settings: ModelSettings): readonly string[] {
  switch (resource?.kind) {
    case 'Service':
      return virtualIps(resource as Resource<'Service'>);
    case 'Node':
      return idsOf(nodeAddresses(resource as Resource<'Node'>));
    case 'Pod':
      return idsOf(addressesOfNode(resource as Resource<'Pod'>));
    case 'Endpoints':
    case 'EndpointSlice':
      return idsOf(bareAddresses(asDocument(resource, settings)));
    default:
      return NO_ADDRESSES;
  }
}

function ownIds(pod: Resource<'Pod'> | undefined): readonly string[] {
  return pod === undefined ? NO_ADDRESSES : idsOf(ownAddresses(pod));
}

/** The valid addresses in the form of `addressId`, each once. */
function idsOf(addresses: readonly string[]): readonly string[] {
  const ids: string[] = [];
  for (const address of addresses) {
    const id = addressId(address);
    if (id !== undefined && !ids.includes(id)) ids.push(id);
  }
  return ids;
}

const NO_ADDRESSES: readonly string[] = [];

function servicesOf(document: EndpointsDocument | undefined): string[] {
  const service = serviceOfEndpoints(document);
  return service === undefined ? [] : [service];
}

/** The resource if it is of the kind that endpoints are read from. */
function asDocument(
  resource: AnyResource | undefined,
  { useEndpointSlice }: Pick<ModelSettings, 'useEndpointSlice'>,
): EndpointsDocument | undefined {
  return useEndpointSlice ? ofKind(resource, 'EndpointSlice') : ofKind(resource, 'Endpoints');
}

/** `state` with updated indexes of workloads and definers (its resources are the new ones already). */
export function* indexWorkloads(state: State, changed: readonly ResourceChange[]): Slices<State> {
  const podsByIp = new GroupEdits();
  const podsByNamespace = new GroupEdits();
  const entriesByNamespace = new GroupEdits();
  const documentsByService = new GroupEdits();
  const selecting = new GroupEdits();
  const selectingPods = new GroupEdits();
  const definers = new GroupEdits();
  const owners = new GroupEdits();
  for (const { key, before, after } of changed) {
    owners.move(key, ownedIds(before, state.settings), ownedIds(after, state.settings));
    switch ((after ?? before)?.kind) {
      case 'Pod': {
        const [was, is] = [ofKind(before, 'Pod'), ofKind(after, 'Pod')];
        podsByIp.move(key, ownIds(was), ownIds(is));
        podsByNamespace.move(key, namespaceOf(before), namespaceOf(after));
        break;
      }
      case 'WorkloadEntry':
        entriesByNamespace.move(key, namespaceOf(before), namespaceOf(after));
        break;
      case 'EndpointSlice':
      case 'Endpoints': {
        const [was, is] = [asDocument(before, state.settings), asDocument(after, state.settings)];
        documentsByService.move(key, servicesOf(was), servicesOf(is));
        break;
      }
      case 'Service':
      case 'ServiceEntry':
        definers.move(key, definedKeys(before, state.settings), definedKeys(after, state.settings));
        selecting.move(key, selectingNamespace(before, state), selectingNamespace(after, state));
        if (key.startsWith('ServiceEntry/'))
          selectingPods.move(key, selectingNamespace(before, state), selectingNamespace(after, state));
        break;
    }
    yield;
  }
  const indexed = {
    ...state,
    podsByIp: podsByIp.apply(state.podsByIp),
    podsByNamespace: podsByNamespace.apply(state.podsByNamespace),
    entriesByNamespace: entriesByNamespace.apply(state.entriesByNamespace),
    documentsByService: documentsByService.apply(state.documentsByService),
    selecting: selecting.apply(state.selecting),
    selectingPods: selectingPods.apply(state.selectingPods),
    definers: definers.apply(state.definers),
    addressOwners: owners.apply(state.addressOwners),
  };
  yield;
  const { allocatedAddresses, resources } = state;
  return {
    ...indexed,
    remoteVirtualIps: nextRemoteVirtualIps(state.remoteVirtualIps, changed),
    workloadRanges: nextWorkloadRanges(state.workloadRanges, changed),
    allocatedAddresses: yield* nextAllocatedAddresses(allocatedAddresses, changed, tableOf(resources, 'ServiceEntry')),
  };
}

function serviceOfId(id: string, settings: ModelSettings): ServiceKey {
  const slash = id.indexOf('/');
  return orchestratorServiceKey(id.slice(0, slash), id.slice(slash + 1), settings);
}

function selectingNamespace(resource: AnyResource | undefined, state: State): string[] {
  return workloadSelectorOf(resource, state) === undefined ? [] : namespaceOf(resource);
}

/** Collects which services have to be recomputed, and why. */
class DirtyServices {
  readonly found = new Map<ServiceKey, 'all' | Set<string>>();
  readonly #state: State;
  readonly #shared = new Set<string>();

  constructor(state: State) {
    this.#state = state;
  }

  /** Adds a part of a service, or a read. */
  add(key: ServiceKey, token: string): void {
    const tokens = this.found.get(key);
    if (tokens === undefined) this.found.set(key, new Set([token]));
    else if (tokens !== 'all') tokens.add(token);
  }

  addAll(key: ServiceKey): void {
    this.found.set(key, 'all');
  }

  addReaders(read: string): void {
    for (const key of membersOf(this.#state.readers, read)) this.add(key, read);
  }

  /** Adds the services that looked up the owners of these addresses. */
  addOwned(ids: readonly string[]): void {
    for (const id of ids) this.addReaders(`${ADDRESS_READ}${id}`);
  }

  /** Adds services with this virtual IP in any cluster: see `cluster-addresses.ts`. */
  addSharing(address: string): void {
    if (this.#shared.has(address)) return;
    this.#shared.add(address);
    const { addressOwners, resources, settings } = this.#state;
    for (const owner of membersOf(addressOwners, address)) {
      for (const key of definedKeys(resources.Service.get(owner), settings)) this.add(key, `${ADDRESS_READ}${address}`);
    }
  }

  /** Adds services of a namespace that select a workload with these labels; only ServiceEntries select Pods. */
  addSelecting(namespace: string, labels: Labels, what: 'pods' | 'entries'): void {
    const { resources, selecting, selectingPods, settings } = this.#state;
    for (const key of membersOf(what === 'pods' ? selectingPods : selecting, namespace)) {
      const resource = resources.ServiceEntry.get(key) ?? resources.Service.get(key);
      const selector = workloadSelectorOf(resource, this.#state);
      if (selector === undefined || !labelsMatch(selector, labels)) continue;
      for (const service of definedKeys(resource, settings)) this.add(service, selectionId(key));
    }
  }
}

/**
 * Which services have to be recomputed after `changed`, and what of them. `state` follows `before`, with updated
 * indexes.
 */
export function* dirtyServices(
  before: State,
  state: State,
  changed: readonly ResourceChange[],
): Slices<Map<ServiceKey, AffectedParts>> {
  const dirty = new DirtyServices(state);
  for (const read of changedAllocations(before.allocatedAddresses, state.allocatedAddresses)) dirty.addReaders(read);
  for (const address of addressesWithOtherClusters(before, state, changed)) dirty.addSharing(address);
  for (const { key, before: was, after: is } of changed) {
    for (const side of [was, is]) if (side !== undefined) addSide(dirty, state, key, side);
    const node = was ?? is;
    if (node?.kind === 'Node' && nodeLocality(was?.meta.labels ?? {}) !== nodeLocality(is?.meta.labels ?? {})) {
      dirty.addReaders(key);
    }
    yield;
  }
  return dirty.found;
}

/**
 * The former and current virtual IPs of Services in one cluster that Services in other clusters had or have as well.
 */
function addressesWithOtherClusters(
  before: State,
  after: State,
  changed: readonly ResourceChange[],
): readonly string[] {
  const [{ clusters: was }, { clusters: is }] = [before.remoteVirtualIps, after.remoteVirtualIps];
  const addresses = was === is ? [] : is.changedKeys(was);
  if (is.size === 0) return addresses;
  for (const { before: old, after: current } of changed) {
    if ((current ?? old)?.kind !== 'Service' || (current ?? old)?.meta.cluster !== undefined) continue;
    const [some, others] = [virtualIps(ofKind(old, 'Service')), virtualIps(ofKind(current, 'Service'))];
    addresses.push(...new Set(some).symmetricDifference(new Set(others)));
  }
  return addresses;
}

function addSide(dirty: DirtyServices, state: State, key: ResourceKey, side: AnyResource): void {
  const { settings } = state;
  const { namespace } = side.meta;
  switch (side.kind) {
    case 'Service':
    case 'ServiceEntry':
      dirty.addOwned(ownedIds(side, settings));
      for (const service of definedKeys(side, settings)) dirty.addAll(service);
      break;
    case 'Endpoints':
    case 'EndpointSlice': {
      const document = asDocument(side, settings);
      if (isApiServerKey(key)) dirty.addOwned(ownedIds(side, settings));
      for (const id of servicesOf(document)) dirty.add(serviceOfId(id, settings), key);
      break;
    }
    case 'Pod':
      dirty.addReaders(key);
      dirty.addOwned(idsOf(podAddresses(side as unknown as Resource<'Pod'>)));
      if (settings.serviceEntrySelectsPods) dirty.addSelecting(namespace, side.meta.labels, 'pods');
      break;
    case 'Node':
      dirty.addOwned(ownedIds(side, settings));
      break;
    case 'WorkloadEntry': {
      const entry = ofKind(side, 'WorkloadEntry');
      if (entry !== undefined) dirty.addSelecting(namespace, entryLabels(entry.content, entry.meta.labels), 'entries');
      break;
    }
  }
}

/**
 * Services with workloads for which a change of policies may enable or disable mutual TLS, with the policies that they
 * read.
 */
export function guardedServices(before: State, after: State, change: PolicyChange): Map<ServiceKey, AffectedParts> {
  const namespaces = clientChange(before.peerPolicies, after.peerPolicies, change);
  const reads =
    namespaces === 'all'
      ? [...after.readers.keys()].filter((read) => read.startsWith(POLICY_READ))
      : [...namespaces].map((namespace) => `${POLICY_READ}${namespace}`);
  const dirty = new DirtyServices(after);
  for (const read of reads) dirty.addReaders(read);
  return dirty.found;
}
