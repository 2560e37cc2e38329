/**
 * The endpoints of one service, part by part: the orchestrator's Endpoints or slices joined with pods, endpoints of
 * service entries, selected pods and workload entries. Nothing here depends on the order of arrival.
 */
import type { PMap } from '../../core/pmap.ts';
import { type AnyResource, keyOf, type Resource, type ResourceKey } from '../../resources/index.ts';
import { isAddressOfOthers } from '../addresses/address-owners.ts';
import type { AllocatedAddresses } from '../addresses/allocated-addresses.ts';
import type { ClusterAddressIndexes } from '../addresses/cluster-addresses.ts';
import { type Groups, membersOf } from '../common/groups.ts';
import { isEmptySelector, type Labels, labelsMatch } from '../common/labels.ts';
import { addressId } from '../common/networks.ts';
import { type DefinitionContext, entryPorts, type MergedService } from '../services/definitions.ts';
import type { Health, RegistryKind, Service } from '../types/types.ts';
import {
  ADDRESS_READ,
  bareWorkload,
  endpointAddress,
  entryLabels,
  entryWorkload,
  hasAddress,
  isFinished,
  joinLocality,
  localityOfNode,
  podAddresses,
  podAt,
  podHealth,
  podNamed,
  podWorkload,
  type Reads,
  type Workload,
  type WorkloadIndexes,
} from '../workloads/workloads.ts';
import type { EndpointsDocument } from './endpoint-documents.ts';
import type { EndpointCollector, PartPlan } from './endpoint-part.ts';

export interface EndpointIndexes extends WorkloadIndexes, ClusterAddressIndexes {
  readonly allocatedAddresses: AllocatedAddresses;
  resources<K extends RegistryKind>(kind: K): PMap<Resource<K>>;
  readonly podsByNamespace: Groups;
  readonly entriesByNamespace: Groups;
  /** `namespace/name` of an orchestrator service → keys of its EndpointSlices or Endpoints, in all clusters. */
  readonly documentsByService: Groups;
}

export type Definer = Resource<'Service'> | Resource<'ServiceEntry'>;
/** Port number of the definition → name of the port in the service. */
type PortNames = ReadonlyMap<number, string>;

/** The parts of a service's endpoints, in order of precedence. */
export function endpointPlans(
  { service, parts }: MergedService,
  definers: readonly Definer[],
  indexes: EndpointIndexes,
): PartPlan[] {
  return parts.flatMap(({ source, portNames }) => {
    const definer = definers.find((each) => keyOf(each) === source);
    if (definer?.kind === 'Service') return orchestratorPlans(definer as Resource<'Service'>, portNames, indexes);
    if (definer === undefined) return [];
    const entry = definer as Resource<'ServiceEntry'>;
    const make = (collector: EndpointCollector) => entryEndpoints(entry, service, portNames, indexes, collector);
    return [{ id: selectionId(source), make }];
  });
}

/** Id of the part with the workloads that a Service or ServiceEntry selects or lists. */
export function selectionId(source: ResourceKey): string {
  return `selected:${source}`;
}

function orchestratorPlans(resource: Resource<'Service'>, portNames: PortNames, indexes: EndpointIndexes): PartPlan[] {
  const { spec } = resource.content;
  const { type, externalName, selector } = spec;
  const own = selectionId(keyOf(resource));
  if (type === 'ExternalName') {
    if (externalName === undefined) return [];
    const target = bareWorkload(externalName, 'healthy', undefined, '', resource.meta.cluster, indexes);
    const make = (collector: EndpointCollector) => {
      for (const [port, name] of portNames) collector.add(target, port, name);
    };
    return [{ id: own, make }];
  }
  const plans = documentPlans(resource, portNames, indexes);
  if (!indexes.settings.serviceSelectsWorkloadEntries || selector === undefined || isEmptySelector(selector))
    return plans;
  const make = (collector: EndpointCollector) => selectedEndpoints(resource, selector, portNames, indexes, collector);
  return [...plans, { id: own, make }];
}

/** The parts from the orchestrator's slices or Endpoints. */
function documentPlans(
  { meta, content }: Resource<'Service'>,
  portNames: PortNames,
  indexes: EndpointIndexes,
): PartPlan[] {
  // Endpoints use the port names of the Service; the merged service may have other names.
  const names = new Map<string, string>();
  for (const port of content.spec.ports ?? []) {
    const name = port.protocol === 'TCP' ? portNames.get(port.port) : undefined;
    if (name !== undefined) names.set(port.name ?? '', name);
  }
  return membersOf(indexes.documentsByService, `${meta.namespace}/${meta.name}`).map((id): PartPlan => {
    const make = (collector: EndpointCollector) => {
      const slice = indexes.resources('EndpointSlice').get(id);
      const endpoints = indexes.resources('Endpoints').get(id);
      if (slice !== undefined) sliceEndpoints(slice, names, indexes, collector);
      else if (endpoints !== undefined) objectEndpoints(endpoints, names, indexes, collector);
    };
    return { id, make };
  });
}

function selectedEndpoints(
  { meta, content }: Resource<'Service'>,
  selector: Labels,
  portNames: PortNames,
  indexes: EndpointIndexes,
  collector: EndpointCollector,
): void {
  selectEntries(meta.namespace, selector, indexes, (entry, workload) => {
    for (const port of content.spec.ports ?? []) {
      const servicePort = port.protocol === 'TCP' ? portNames.get(port.port) : undefined;
      if (servicePort === undefined) continue;
      const ports = entry.content.ports ?? {};
      const named = typeof port.targetPort === 'string' ? portOf(ports, port.targetPort) : undefined;
      const number = typeof port.targetPort === 'number' && port.targetPort > 0 ? port.targetPort : port.port;
      collector.add(workload, named ?? portOf(ports, port.name ?? '') ?? number, servicePort);
    }
  });
}

function objectEndpoints(
  endpoints: Resource<'Endpoints'>,
  names: ReadonlyMap<string, string>,
  indexes: EndpointIndexes,
  collector: EndpointCollector,
): void {
  for (const subset of endpoints.content.subsets ?? []) {
    const ports = (subset.ports ?? []).filter(({ protocol }) => protocol === 'TCP');
    const lists = [
      ['healthy', subset.addresses ?? []],
      ['unhealthy', subset.notReadyAddresses ?? []],
    ] as const;
    for (const [health, addresses] of lists) {
      for (const written of addresses) {
        const workload = resolveAddress(endpoints, written, written.ip, '', health, indexes, collector);
        if (workload === undefined) continue;
        for (const port of ports) addByName(workload, port.port, port.name, names, collector);
      }
    }
  }
}

function sliceEndpoints(
  slice: Resource<'EndpointSlice'>,
  names: ReadonlyMap<string, string>,
  indexes: EndpointIndexes,
  collector: EndpointCollector,
): void {
  // A host name cannot be an endpoint of a service with static resolution.
  if (slice.content.addressType === 'FQDN') return;
  const ports = (slice.content.ports ?? []).filter(({ protocol }) => protocol === 'TCP');
  for (const written of slice.content.endpoints ?? []) {
    const health = sliceHealth(written.conditions);
    const topology = written.topology ?? {};
    const zone = written.zone ?? topology['topology.kubernetes.io/zone'] ?? '';
    for (const address of written.addresses) {
      const workload = resolveAddress(slice, written, address, zone, health, indexes, collector);
      if (workload === undefined) continue;
      for (const port of ports) {
        if (port.port !== undefined) addByName(workload, port.port, port.name, names, collector);
      }
    }
  }
}

type SliceConditions =
  | {
      readonly ready?: boolean | undefined;
      readonly serving?: boolean | undefined;
      readonly terminating?: boolean | undefined;
    }
  | undefined;

/** Unknown readiness counts as ready, as Kubernetes defines it; terminating but still serving means draining. */
function sliceHealth(conditions: SliceConditions): Health {
  if (conditions?.ready !== false) return 'healthy';
  return conditions.serving === true && conditions.terminating === true ? 'draining' : 'unhealthy';
}

function addByName(
  workload: Workload,
  port: number,
  name: string | undefined,
  names: ReadonlyMap<string, string>,
  collector: EndpointCollector,
): void {
  const servicePort = names.get(name ?? '');
  if (servicePort !== undefined) collector.add(workload, port, servicePort);
}

interface AddressReference {
  readonly hostname?: string | undefined;
  readonly nodeName?: string | undefined;
  readonly targetRef?:
    | {
        readonly kind?: string | undefined;
        readonly namespace?: string | undefined;
        readonly name?: string | undefined;
      }
    | undefined;
}

/**
 * The workload at an address of Endpoints or a slice, looked up in the cluster of that document. While the pod that the
 * address names is unknown, the endpoint is left out: without the pod's labels it would be outside its subsets and
 * without mutual TLS.
 */
function resolveAddress(
  { meta: { namespace, cluster } }: EndpointsDocument,
  { targetRef, hostname, nodeName }: AddressReference,
  address: string,
  zone: string,
  health: Health,
  indexes: EndpointIndexes,
  collector: EndpointCollector,
): Workload | undefined {
  const { reads } = collector;
  const podName = targetRef?.kind === 'Pod' ? targetRef.name : undefined;
  const named =
    podName === undefined ? undefined : podNamed(targetRef?.namespace ?? namespace, podName, cluster, indexes, reads);
  // Endpoints can refer to any Pod, so the addresses in the Pods' own statuses decide.
  const mayBeAnother = podName === undefined || (named !== undefined && !hasAddress(named, address));
  const pod = (mayBeAnother ? podAt(address, cluster, indexes, reads) : undefined) ?? named;
  const ofOthers = isAddressOfOthers(address, namespace, pod, indexes, reads);
  if (pod !== undefined) return marked(podWorkload(pod, address, health, hostname, indexes, reads), ofOthers);
  if (podName !== undefined) {
    collector.pendingPod++;
    return undefined;
  }
  collector.withoutPod++;
  const locality = localityOfNode(nodeName, cluster, indexes, reads) || joinLocality('', zone, '');
  return marked(bareWorkload(address, health, hostname, locality, cluster, indexes), ofOthers);
}

function marked(workload: Workload, ofOthers: boolean): Workload {
  return ofOthers ? { ...workload, addressOfOthers: true } : workload;
}

function entryEndpoints(
  resource: Resource<'ServiceEntry'>,
  service: Service,
  portNames: PortNames,
  indexes: EndpointIndexes,
  collector: EndpointCollector,
): void {
  const { content, meta } = resource;
  const ports = entryPorts(resource).flatMap((port) => {
    const servicePort = port.protocol === 'UDP' ? undefined : portNames.get(port.port);
    return servicePort === undefined ? [] : [{ ...port, servicePort }];
  });
  const addEntry = (workload: Workload, own: Readonly<Record<string, number>>) => {
    for (const port of ports) collector.add(workload, portOf(own, port.name) ?? port.targetPort, port.servicePort);
  };
  const selector = content.workloadSelector?.labels;
  if (selector !== undefined) {
    selectEntries(meta.namespace, selector, indexes, (entry, workload) =>
      addEntry(workload, entry.content.ports ?? {}),
    );
    if (indexes.settings.serviceEntrySelectsPods) {
      selectPods(meta.namespace, selector, indexes, collector, (workload) => addEntry(workload, {}));
    }
    return;
  }
  const written = content.endpoints ?? [];
  const unhealthy = new Set(meta.unhealthyEndpoints);
  for (const [index, spec] of written.entries()) {
    const workload = entryWorkload(spec, {}, undefined, indexes, unhealthy.has(index) ? 'unhealthy' : 'healthy');
    if (workload === undefined) continue;
    if (meta.ofMachines === true && isAddressOfPod(workload.address, indexes, collector.reads)) continue;
    addEntry(workload, spec.ports ?? {});
  }
  if (written.length === 0 && service.resolution === 'dns' && !service.hostname.startsWith('*')) {
    addEntry(bareWorkload(endpointAddress(service.hostname), 'healthy', undefined, '', undefined, indexes), {});
  }
}

/** Whether a Pod of any cluster has the address. */
function isAddressOfPod(address: string, indexes: EndpointIndexes, reads: Reads): boolean {
  const id = addressId(address);
  if (id === undefined) return false;
  reads.add(`${ADDRESS_READ}${id}`);
  return membersOf(indexes.podsByIp, id).length > 0;
}

/** A port's number in a user-written map: a name such as `constructor` must not find an inherited property. */
function portOf(ports: Readonly<Record<string, number>>, name: string): number | undefined {
  return Object.hasOwn(ports, name) ? ports[name] : undefined;
}

function selectEntries(
  namespace: string,
  selector: Labels,
  indexes: EndpointIndexes,
  use: (entry: Resource<'WorkloadEntry'>, workload: Workload) => void,
): void {
  for (const key of membersOf(indexes.entriesByNamespace, namespace)) {
    const entry = indexes.resources('WorkloadEntry').get(key);
    if (entry === undefined || !labelsMatch(selector, entryLabels(entry.content, entry.meta.labels))) continue;
    const identity = { namespace, name: entry.meta.name };
    const health = entry.meta.unhealthy === true ? 'unhealthy' : 'healthy';
    const workload = entryWorkload(entry.content, entry.meta.labels, identity, indexes, health);
    if (workload === undefined) continue;
    use(entry, workload);
  }
}

function selectPods(
  namespace: string,
  selector: Labels,
  indexes: EndpointIndexes,
  collector: EndpointCollector,
  use: (workload: Workload) => void,
): void {
  for (const key of membersOf(indexes.podsByNamespace, namespace)) {
    const pod = indexes.resources('Pod').get(key);
    if (pod === undefined || isFinished(pod) || !labelsMatch(selector, pod.meta.labels)) continue;
    collector.reads.add(key);
    // Only the primary address: a dual-stack pod is one endpoint.
    const [address] = podAddresses(pod);
    if (address !== undefined) use(podWorkload(pod, address, podHealth(pod), undefined, indexes, collector.reads));
  }
}

/**
 * The effective workload selector of a service; undefined if it has none. A selector without labels selects no
 * workloads for a Service, and all workloads of its namespace for a ServiceEntry.
 */
export function workloadSelectorOf(resource: AnyResource | undefined, indexes: DefinitionContext): Labels | undefined {
  if (resource?.kind === 'ServiceEntry') return resource.content.workloadSelector?.labels;
  if (resource?.kind !== 'Service' || !indexes.settings.serviceSelectsWorkloadEntries) return undefined;
  const { selector } = resource.content.spec;
  return isEmptySelector(selector) ? undefined : selector;
}
