/**
 * The first stage of a change: indexes of pods, workload entries, slices and definers, and which services have to be looked at
 * again because something that they are made of changed.
 */
import type { AnyResource, Resource } from '../resources/types.ts';
import { definedKeys, orchestratorServiceKey } from './definitions.ts';
import { workloadSelectorOf } from './endpoints.ts';
import { GroupEdits, membersOf } from './groups.ts';
import { type Labels, labelsMatch } from './labels.ts';
import { ADDRESS_READ, virtualIps } from './ownership.ts';
import { clientChange, type PolicyChange } from './peer-authentication.ts';
import { type Changed, ofKind, type State } from './state.ts';
import type { ServiceKey } from './types.ts';
import { entryLabels, nodeLocality, ownAddresses, POLICY_READ, podAddresses } from './workloads.ts';

const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';

function namespaceOf(resource: AnyResource | undefined): string[] {
  return resource === undefined ? [] : [resource.meta.namespace];
}

function sliceService(slice: Resource<'EndpointSlice'> | undefined): string[] {
  const name = slice?.meta.labels[SERVICE_NAME_LABEL];
  return slice === undefined || name === undefined ? [] : [`${slice.meta.namespace}/${name}`];
}

/** `state` with its indexes of workloads and definers brought up to date (its resources are the new ones already). */
export function indexWorkloads(state: State, changed: readonly Changed[]): State {
  const podsByIp = new GroupEdits();
  const podsByNamespace = new GroupEdits();
  const entriesByNamespace = new GroupEdits();
  const slicesByService = new GroupEdits();
  const selecting = new GroupEdits();
  const definers = new GroupEdits();
  const ipOwners = new GroupEdits();
  for (const { key, before, after } of changed) {
    switch ((after ?? before)?.kind) {
      case 'Pod': {
        const [was, is] = [ofKind(before, 'Pod'), ofKind(after, 'Pod')];
        podsByIp.move(key, was === undefined ? [] : ownAddresses(was), is === undefined ? [] : ownAddresses(is));
        podsByNamespace.move(key, namespaceOf(before), namespaceOf(after));
        break;
      }
      case 'WorkloadEntry':
        entriesByNamespace.move(key, namespaceOf(before), namespaceOf(after));
        break;
      case 'EndpointSlice':
        slicesByService.move(
          key,
          sliceService(ofKind(before, 'EndpointSlice')),
          sliceService(ofKind(after, 'EndpointSlice')),
        );
        break;
      case 'Service':
      case 'ServiceEntry':
        ipOwners.move(key, virtualIps(ofKind(before, 'Service')), virtualIps(ofKind(after, 'Service')));
        definers.move(key, definedKeys(before, state.settings), definedKeys(after, state.settings));
        selecting.move(key, selectingNamespace(before, state), selectingNamespace(after, state));
        break;
    }
  }
  return {
    ...state,
    podsByIp: podsByIp.apply(state.podsByIp),
    podsByNamespace: podsByNamespace.apply(state.podsByNamespace),
    entriesByNamespace: entriesByNamespace.apply(state.entriesByNamespace),
    slicesByService: slicesByService.apply(state.slicesByService),
    selecting: selecting.apply(state.selecting),
    definers: definers.apply(state.definers),
    virtualIps: ipOwners.apply(state.virtualIps),
  };
}

function selectingNamespace(resource: AnyResource | undefined, state: State): string[] {
  return workloadSelectorOf(resource, state) === undefined ? [] : namespaceOf(resource);
}

/** Keys of the services whose definition or endpoints may differ after `changed`. `state` has its indexes up to date. */
export function dirtyServices(state: State, changed: readonly Changed[]): Set<ServiceKey> {
  const dirty = new Set<ServiceKey>();
  const addReaders = (read: string) => {
    for (const key of membersOf(state.readers, read)) dirty.add(key);
  };
  for (const { before, after } of changed) {
    for (const side of [before, after]) {
      if (side === undefined) continue;
      const { namespace, name } = side.meta;
      switch (side.kind) {
        case 'Service':
          for (const address of virtualIps(ofKind(side, 'Service'))) addReaders(`${ADDRESS_READ}${address}`);
          for (const key of definedKeys(side, state.settings)) dirty.add(key);
          break;
        case 'ServiceEntry':
          for (const key of definedKeys(side, state.settings)) dirty.add(key);
          break;
        case 'Endpoints':
          dirty.add(orchestratorServiceKey(namespace, name, state.settings));
          break;
        case 'EndpointSlice':
          for (const id of sliceService(side as unknown as Resource<'EndpointSlice'>)) {
            dirty.add(orchestratorServiceKey(namespace, id.slice(namespace.length + 1), state.settings));
          }
          break;
        case 'Pod': {
          addReaders(`pod:${namespace}/${name}`);
          for (const address of podAddresses(side as unknown as Resource<'Pod'>)) addReaders(`ip:${address}`);
          if (state.settings.serviceEntrySelectsPods) addSelecting(state, namespace, side.meta.labels, 'pods', dirty);
          break;
        }
        case 'WorkloadEntry': {
          const entry = side as unknown as Resource<'WorkloadEntry'>;
          addSelecting(state, namespace, entryLabels(entry.content, entry.meta.labels), 'entries', dirty);
          break;
        }
      }
    }
    const node = before ?? after;
    if (node?.kind === 'Node' && nodeLocality(before?.meta.labels ?? {}) !== nodeLocality(after?.meta.labels ?? {})) {
      addReaders(`node:${node.meta.name}`);
    }
  }
  return dirty;
}

/** Keys of the services with workloads for which a change of policies may switch mutual TLS off or on again. */
export function guardedServices(before: State, after: State, change: PolicyChange): Set<ServiceKey> {
  const namespaces = clientChange(before.peerPolicies, after.peerPolicies, change);
  const reads =
    namespaces === 'all'
      ? [...after.readers.keys()].filter((read) => read.startsWith(POLICY_READ))
      : [...namespaces].map((namespace) => `${POLICY_READ}${namespace}`);
  return new Set(reads.flatMap((read) => membersOf(after.readers, read)));
}

/** Services of a namespace that select a workload with these labels; only service entries select pods. */
function addSelecting(
  state: State,
  namespace: string,
  labels: Labels,
  what: 'pods' | 'entries',
  dirty: Set<ServiceKey>,
): void {
  for (const key of membersOf(state.selecting, namespace)) {
    const resource =
      state.resources.ServiceEntry.get(key) ?? (what === 'entries' ? state.resources.Service.get(key) : undefined);
    const selector = workloadSelectorOf(resource, state);
    if (selector === undefined || !labelsMatch(selector, labels)) continue;
    for (const service of definedKeys(resource, state.settings)) dirty.add(service);
  }
}
