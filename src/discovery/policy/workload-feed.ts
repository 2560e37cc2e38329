/** What the policy thread knows of workloads: records of Pods and WorkloadEntries, and the services at their places. */
import {
  type ModelChange,
  networkAddress,
  podAddresses,
  type Snapshot,
  type WorkloadResource,
} from '../../model/index.ts';
import type { ServiceRecord, WorkloadAddress, WorkloadChanges, WorkloadRecord } from '../../policy/index.ts';
import type { AnyResource, MeshNetworks, Resource } from '../../resources/index.ts';

/** Follows the publications of the model for one thread. */
export class WorkloadFeed {
  /** Those by which the places of all records were determined. */
  #networks: MeshNetworks | undefined;

  /** The whole table, for a thread that has just started. */
  all(snapshot: Snapshot): WorkloadChanges {
    this.#networks = snapshot.networks;
    const services = new Map<string, readonly ServiceRecord[]>();
    for (const endpoints of snapshot.endpoints.values()) {
      for (const { network, address } of endpoints) {
        const place = networkAddress(network, address);
        if (!services.has(place)) services.set(place, servicesAt(snapshot, network, address));
      }
    }
    return { set: allRecords(snapshot), deleted: [], services: [...services] };
  }

  /** The changes of the table by a publication. */
  changes({ snapshot, changes, resources }: ModelChange): WorkloadChanges {
    const deleted: string[] = [];
    const changed: [string, WorkloadRecord][] = [];
    for (const { key, after } of resources) {
      if (!key.startsWith('Pod/') && !key.startsWith('WorkloadEntry/')) continue;
      const record = recordOf(after, snapshot);
      if (record === undefined) deleted.push(key);
      else changed.push([key, record]);
    }
    const services = [...changes.addresses].map((place): [string, readonly ServiceRecord[]] => {
      const slash = place.lastIndexOf('/');
      return [place, servicesAt(snapshot, place.slice(0, slash), place.slice(slash + 1))];
    });
    const moved = this.#networks !== snapshot.networks;
    this.#networks = snapshot.networks;
    return { set: moved ? allRecords(snapshot) : changed, deleted, services };
  }
}

function allRecords(snapshot: Snapshot): [string, WorkloadRecord][] {
  const all = [...snapshot.resources('Pod').entries(), ...snapshot.resources('WorkloadEntry').entries()];
  return all.flatMap(([key, resource]): [string, WorkloadRecord][] => {
    const record = recordOf(resource, snapshot);
    return record === undefined ? [] : [[key, record]];
  });
}

export function isEmptyChange({ set, deleted, services }: WorkloadChanges): boolean {
  return set.length + deleted.length + services.length === 0;
}

function servicesAt(snapshot: Snapshot, network: string, address: string): ServiceRecord[] {
  const found = new Map<string, { host: string; name: string; namespace: string; ports: number[] }>();
  for (const { service: key, hostname: host, endpoint } of snapshot.instancesAt(network, address)) {
    const service = snapshot.services.get(key);
    if (service === undefined) continue;
    const { namespace, shortName = host } = service;
    const record = found.get(key) ?? { host, name: shortName, namespace, ports: [] };
    found.set(key, record);
    if (!record.ports.includes(endpoint.port)) record.ports.push(endpoint.port);
  }
  return [...found.values()];
}

function recordOf(resource: AnyResource | undefined, snapshot: Snapshot): WorkloadRecord | undefined {
  if (resource?.kind === 'Pod') return podRecord(resource, snapshot);
  return resource?.kind === 'WorkloadEntry' ? entryRecord(resource, snapshot) : undefined;
}

function placed(workload: WorkloadResource, addresses: readonly string[], snapshot: Snapshot): WorkloadAddress[] {
  return addresses.map((address) => {
    const network = snapshot.networkOfWorkload(workload, address);
    return { address, place: networkAddress(network, address) };
  });
}

function podRecord(pod: Resource<'Pod'>, snapshot: Snapshot): WorkloadRecord | undefined {
  const { spec, status } = pod.content;
  const isFinished = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  const addresses = isFinished ? [] : podAddresses(pod);
  if (addresses.length === 0) return undefined;
  const { name, namespace, labels } = pod.meta;
  const deployment = deploymentOf(name, labels['pod-template-hash']);
  return {
    uid: `kubernetes://${name}.${namespace}`,
    name,
    namespace,
    serviceAccount: spec.serviceAccountName || 'default',
    addresses: placed(pod, addresses, snapshot),
    labels,
    workload: deployment ?? name,
    ...(deployment !== undefined && {
      owner: `kubernetes://apis/apps/v1/namespaces/${namespace}/deployments/${deployment}`,
    }),
  };
}

/** A Pod of a Deployment is named `<deployment>-<hash of the template>-<suffix>`. */
function deploymentOf(name: string, hash: string | undefined): string | undefined {
  if (hash === undefined || hash === '') return undefined;
  const at = name.lastIndexOf(`-${hash}-`);
  return at > 0 ? name.slice(0, at) : undefined;
}

function entryRecord(entry: Resource<'WorkloadEntry'>, snapshot: Snapshot): WorkloadRecord | undefined {
  const { meta, content } = entry;
  const { address, labels, serviceAccount } = content;
  if (address === undefined || address === '') return undefined;
  const { name, namespace } = meta;
  return {
    uid: `kubernetes://${name}.${namespace}`,
    name,
    namespace,
    serviceAccount: serviceAccount || 'default',
    addresses: placed(entry, [address], snapshot),
    labels: { ...meta.labels, ...labels },
    workload: name,
  };
}
