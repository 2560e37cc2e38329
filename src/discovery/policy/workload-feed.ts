/** What the policy thread knows of workloads: records of Pods and WorkloadEntries, and the services at addresses. */
import { type ModelChange, podAddresses, type Snapshot } from '../../model/index.ts';
import type { ServiceRecord, WorkloadChanges, WorkloadRecord } from '../../policy/index.ts';
import type { AnyResource, Resource } from '../../resources/index.ts';

/** The changes of the table by a publication. */
export function workloadChanges({ snapshot, changes, resources }: ModelChange): WorkloadChanges {
  const set: [string, WorkloadRecord][] = [];
  const deleted: string[] = [];
  for (const { key, after } of resources) {
    if (!key.startsWith('Pod/') && !key.startsWith('WorkloadEntry/')) continue;
    const record = recordOf(after);
    if (record === undefined) deleted.push(key);
    else set.push([key, record]);
  }
  const services = [...changes.addresses].map((at): [string, readonly ServiceRecord[]] => {
    const slash = at.lastIndexOf('/');
    const address = at.slice(slash + 1);
    return [address, servicesAt(snapshot, at.slice(0, slash), address)];
  });
  return { set, deleted, services };
}

/** The whole table, for a thread that has just started. */
export function allWorkloads(snapshot: Snapshot): WorkloadChanges {
  const records = [...snapshot.resources('Pod').entries(), ...snapshot.resources('WorkloadEntry').entries()];
  const services = new Map<string, readonly ServiceRecord[]>();
  for (const endpoints of snapshot.endpoints.values()) {
    for (const { network, address } of endpoints)
      if (!services.has(address)) services.set(address, servicesAt(snapshot, network, address));
  }
  return {
    set: records.flatMap(([key, resource]): [string, WorkloadRecord][] => {
      const record = recordOf(resource);
      return record === undefined ? [] : [[key, record]];
    }),
    deleted: [],
    services: [...services],
  };
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

function recordOf(resource: AnyResource | undefined): WorkloadRecord | undefined {
  if (resource?.kind === 'Pod') return podRecord(resource);
  return resource?.kind === 'WorkloadEntry' ? entryRecord(resource) : undefined;
}

function podRecord(pod: Resource<'Pod'>): WorkloadRecord | undefined {
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
    addresses,
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

function entryRecord({ meta, content }: Resource<'WorkloadEntry'>): WorkloadRecord | undefined {
  const { address, labels, serviceAccount } = content;
  if (address === undefined || address === '') return undefined;
  const { name, namespace } = meta;
  return {
    uid: `kubernetes://${name}.${namespace}`,
    name,
    namespace,
    serviceAccount: serviceAccount || 'default',
    addresses: [address],
    labels: { ...meta.labels, ...labels },
    workload: name,
  };
}
