/**
 * The first step of a change: indexes of pods, workload entries, slices and definers, and which services have to be
 * recomputed because something that they depend on changed.
 */
import type { AnyResource, Resource, ResourceKey } from '../resources/index.ts';
import { changedAllocations, nextAllocatedAddresses } from './allocated-addresses.ts';
import { definedKeys, orchestratorServiceKey } from './definitions.ts';
import { selectionId, workloadSelectorOf } from './endpoints.ts';
import { GroupEdits, membersOf } from './groups.ts';
import {
  bareAddresses,
  claimedRanges,
  type EndpointsDocument,
  headlessKeys,
  rangesAround,
} from './headless-addresses.ts';
import { type Labels, labelsMatch } from './labels.ts';
import { addressId } from './networks.ts';
import { clientChange, type PolicyChange } from './peer-authentication.ts';
import type { Dirt } from './service-record.ts';
import type { State } from './state.ts';
import { type Changed, ofKind, tableOf } from './tables.ts';
import type { ModelSettings, ServiceKey } from './types.ts';
import { nextRemoteVirtualIps, virtualIps } from './virtual-ips.ts';
import { ADDRESS_READ, entryLabels, nodeLocality, ownAddresses, POLICY_READ, podAddresses } from './workloads.ts';

const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';

function namespaceOf(resource: AnyResource | undefined): string[] {
  return resource === undefined ? [] : [resource.meta.namespace];
}

/** The addresses under which a pod is indexed. */
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

/** `namespace/name` of the Service of a document of endpoints. */
function serviceOfDocument(document: EndpointsDocument | undefined): string[] {
  const name = document?.kind === 'EndpointSlice' ? document.meta.labels[SERVICE_NAME_LABEL] : document?.meta.name;
  return document === undefined || name === undefined ? [] : [`${document.meta.namespace}/${name}`];
}

/** The resource if it is of the kind that endpoints are read from. */
function asDocument(
  resource: AnyResource | undefined,
  { useEndpointSlice }: Pick<ModelSettings, 'useEndpointSlice'>,
): EndpointsDocument | undefined {
  return useEndpointSlice ? ofKind(resource, 'EndpointSlice') : ofKind(resource, 'Endpoints');
}

/** `state` with updated indexes of workloads and definers (its resources are the new ones already). */
export function indexWorkloads(state: State, changed: readonly Changed[]): State {
  const podsByIp = new GroupEdits();
  const podsByNamespace = new GroupEdits();
  const entriesByNamespace = new GroupEdits();
  const documentsByService = new GroupEdits();
  const selecting = new GroupEdits();
  const selectingPods = new GroupEdits();
  const definers = new GroupEdits();
  const ipOwners = new GroupEdits();
  const ranges = new GroupEdits();
  for (const { key, before, after } of changed) {
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
        documentsByService.move(key, serviceOfDocument(was), serviceOfDocument(is));
        break;
      }
      case 'Service':
      case 'ServiceEntry':
        ipOwners.move(key, virtualIps(ofKind(before, 'Service')), virtualIps(ofKind(after, 'Service')));
        ranges.move(key, claimedRanges(before), claimedRanges(after));
        definers.move(key, definedKeys(before, state.settings), definedKeys(after, state.settings));
        selecting.move(key, selectingNamespace(before, state), selectingNamespace(after, state));
        if (key.startsWith('ServiceEntry/'))
          selectingPods.move(key, selectingNamespace(before, state), selectingNamespace(after, state));
        break;
    }
  }
  return {
    ...state,
    podsByIp: podsByIp.apply(state.podsByIp),
    podsByNamespace: podsByNamespace.apply(state.podsByNamespace),
    entriesByNamespace: entriesByNamespace.apply(state.entriesByNamespace),
    documentsByService: documentsByService.apply(state.documentsByService),
    selecting: selecting.apply(state.selecting),
    selectingPods: selectingPods.apply(state.selectingPods),
    definers: definers.apply(state.definers),
    addressOwners: ipOwners.apply(state.addressOwners),
    remoteVirtualIps: nextRemoteVirtualIps(state.remoteVirtualIps, changed),
    claimedRanges: ranges.apply(state.claimedRanges),
    allocatedAddresses: nextAllocatedAddresses(
      state.allocatedAddresses,
      changed,
      tableOf(state.resources, 'ServiceEntry'),
    ),
  };
}

/**
 * `after` with its indexes of the addresses in Endpoints or EndpointSlices. Whether these are headless, and at which
 * ports, depends on the Services.
 */
export function indexEndpointAddresses(before: State, after: State, changed: readonly Changed[]): State {
  const headless = new GroupEdits();
  const owners = new GroupEdits();
  for (const key of addressDocuments(before, after, changed)) {
    const [was, is] = [endpointsDocument(before, key), endpointsDocument(after, key)];
    headless.move(key, headlessAddressesOf(before, was), headlessAddressesOf(after, is));
    owners.move(key, ownedIds(was), ownedIds(is));
  }
  return {
    ...after,
    headlessAddresses: headless.apply(after.headlessAddresses),
    addressOwners: owners.apply(after.addressOwners),
  };
}

/** Documents of endpoints that changed or whose Service changed. */
function addressDocuments(before: State, after: State, changed: readonly Changed[]): ReadonlySet<ResourceKey> {
  const keys = new Set<ResourceKey>();
  for (const { key, before: was, after: is } of changed) {
    const resource = is ?? was;
    if (resource === undefined) continue;
    const { kind, meta } = resource;
    if (asDocument(resource, after.settings) !== undefined) keys.add(key);
    if (kind !== 'Service') continue;
    for (const state of [before, after])
      for (const document of membersOf(state.documentsByService, `${meta.namespace}/${meta.name}`)) keys.add(document);
  }
  return keys;
}

function endpointsDocument({ resources, settings }: State, key: ResourceKey): EndpointsDocument | undefined {
  return settings.useEndpointSlice
    ? tableOf(resources, 'EndpointSlice').get(key)
    : tableOf(resources, 'Endpoints').get(key);
}

function headlessAddressesOf(state: State, document: EndpointsDocument | undefined): readonly string[] {
  const [id] = serviceOfDocument(document);
  if (document === undefined || id === undefined) return [];
  const service = serviceOfId(id, state.settings);
  const services = tableOf(state.resources, 'Service');
  const definers = membersOf(state.definers, service).flatMap((key) => services.get(key) ?? []);
  return headlessKeys(document, definers, state.settings);
}

/** Key of the orchestrator service `namespace/name`. */
function serviceOfId(id: string, settings: ModelSettings): ServiceKey {
  const slash = id.indexOf('/');
  return orchestratorServiceKey(id.slice(0, slash), id.slice(slash + 1), settings);
}

function ownedIds(document: EndpointsDocument | undefined): readonly string[] {
  return idsOf(bareAddresses(document));
}

function selectingNamespace(resource: AnyResource | undefined, state: State): string[] {
  return workloadSelectorOf(resource, state) === undefined ? [] : namespaceOf(resource);
}

/** Collects which services have to be recomputed, and why. */
class DirtyServices {
  readonly found = new Map<ServiceKey, 'all' | Set<string>>();
  readonly #state: State;
  /** The addresses of {@link addSharing}. */
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

  /** Services with an address that a document of endpoints names. */
  addOwned(document: EndpointsDocument | undefined): void {
    for (const id of ownedIds(document)) this.addReaders(`${ADDRESS_READ}${id}`);
  }

  /** Services with this virtual IP in any cluster: see `cluster-addresses.ts`. */
  addSharing(address: string): void {
    if (this.#shared.has(address)) return;
    this.#shared.add(address);
    const { addressOwners, resources, settings } = this.#state;
    for (const owner of membersOf(addressOwners, address)) {
      for (const key of definedKeys(resources.Service.get(owner), settings)) this.add(key, `${ADDRESS_READ}${address}`);
    }
  }

  /** Services with address ranges in which a headless Service appeared or disappeared. */
  addRangesAround(headlessKeys: readonly string[]): void {
    if (headlessKeys.length === 0 || this.#state.claimedRanges.size === 0) return;
    for (const range of rangesAround(headlessKeys, this.#state.claimedRanges.keys())) this.addReaders(range);
  }

  /** Services of a namespace that select a workload with these labels; only ServiceEntries select pods. */
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
export function dirtyServices(before: State, state: State, changed: readonly Changed[]): Map<ServiceKey, Dirt> {
  const dirty = new DirtyServices(state);
  dirty.addRangesAround(state.headlessAddresses.changedKeys(before.headlessAddresses));
  for (const read of changedAllocations(before.allocatedAddresses, state.allocatedAddresses)) dirty.addReaders(read);
  for (const address of addressesWithOtherClusters(before, state, changed)) dirty.addSharing(address);
  for (const { key, before: was, after: is } of changed) {
    for (const side of [was, is]) if (side !== undefined) addSide(dirty, state, key, side);
    const node = was ?? is;
    if (node?.kind === 'Node' && nodeLocality(was?.meta.labels ?? {}) !== nodeLocality(is?.meta.labels ?? {})) {
      dirty.addReaders(key);
    }
  }
  return dirty.found;
}

/** The virtual IPs that Services of a cluster had or have, and those of other clusters have as well or had. */
function addressesWithOtherClusters(before: State, after: State, changed: readonly Changed[]): readonly string[] {
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
      for (const address of virtualIps(ofKind(side, 'Service'))) dirty.addReaders(`${ADDRESS_READ}${address}`);
      for (const service of definedKeys(side, settings)) dirty.addAll(service);
      break;
    case 'Endpoints':
    case 'EndpointSlice': {
      const document = asDocument(side, settings);
      dirty.addOwned(document);
      for (const id of serviceOfDocument(document)) dirty.add(serviceOfId(id, settings), key);
      break;
    }
    case 'Pod':
      dirty.addReaders(key);
      for (const id of idsOf(podAddresses(side as unknown as Resource<'Pod'>)))
        dirty.addReaders(`${ADDRESS_READ}${id}`);
      if (settings.serviceEntrySelectsPods) dirty.addSelecting(namespace, side.meta.labels, 'pods');
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
export function guardedServices(before: State, after: State, change: PolicyChange): Map<ServiceKey, Dirt> {
  const namespaces = clientChange(before.peerPolicies, after.peerPolicies, change);
  const reads =
    namespaces === 'all'
      ? [...after.readers.keys()].filter((read) => read.startsWith(POLICY_READ))
      : [...namespaces].map((namespace) => `${POLICY_READ}${namespace}`);
  const dirty = new DirtyServices(after);
  for (const read of reads) dirty.addReaders(read);
  return dirty.found;
}
