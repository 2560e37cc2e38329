/**
 * Decides which workloads may register for which group. A workload declares its group, addresses, network and locality
 * itself; its certificate proves its namespace and service account, and everything else in the WorkloadEntry comes from
 * the group, because labels that a workload declares could make it an endpoint of other services, or a gateway with
 * their secrets.
 */
import type { ProxyNode } from '../../core/proxy.ts';
import { addressId, registeredEntryName, registeredNetwork, type Snapshot } from '../../model/index.ts';
import {
  apiVersionsOf,
  GROUP_ANNOTATION,
  HEALTH_CHECKED,
  type Resource,
  resourceKey,
  type WorkloadEntrySpec,
  type WorkloadGroupSpec,
} from '../../resources/index.ts';

export interface AdmittedEntry {
  readonly namespace: string;
  readonly name: string;
  readonly group: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: WorkloadEntrySpec & { readonly address: string };
  /** Whether the workload is probed, and receives requests only while it is healthy. */
  readonly probed: boolean;
}

export type Admission = { readonly entry: AdmittedEntry } | { readonly refused: string };

type ClaimingNode = Pick<ProxyNode, 'namespace' | 'identity' | 'addresses' | 'network' | 'locality'>;

/** Maximum number of registered workloads of a group. One certificate is enough to register any number of addresses. */
export const MAX_PER_GROUP = 1000;
/** The limit of a service account, which several groups may use. */
export const MAX_PER_ACCOUNT = 2000;

const DEFAULT_ACCOUNT = 'default';

export const ENTRY_API_VERSION = apiVersionsOf('WorkloadEntry')[0] ?? '';

const refused = (reason: string): Admission => ({ refused: reason });

/**
 * @param node whose identity was verified
 * @param group that it names
 * @param current name of its current entry, which differs if the network of its group has changed
 */
export function admitWorkload(node: ClaimingNode, group: string, snapshot: Snapshot, current?: string): Admission {
  const { namespace, identity } = node;
  const [address = ''] = node.addresses;
  const found = snapshot.resources('WorkloadGroup').get(resourceKey('WorkloadGroup', namespace, group));
  if (found === undefined) return refused(`there is no WorkloadGroup ${namespace}/${group}`);
  if (identity === undefined) return refused('its stream has no certificate or token');
  const { template } = found.content;
  const account = template.serviceAccount || DEFAULT_ACCOUNT;
  const { settings, mesh } = snapshot;
  const isOfMesh = [settings.trustDomain, ...mesh.trustDomainAliases].includes(identity.trustDomain);
  if (!isOfMesh || identity.namespace !== namespace || identity.serviceAccount !== account) {
    const { trustDomain, namespace: ns, serviceAccount } = identity;
    return refused(
      `its identity is ${trustDomain}/${ns}/${serviceAccount}, but the group is for ${namespace}/${account}`,
    );
  }
  const network = registeredNetwork(found, node.network);
  const name = registeredEntryName(group, address, network);
  if (name === undefined) return refused('its group, address and network cannot form the name of a WorkloadEntry');
  if (!isUsable(address)) return refused(`other workloads cannot reach it at ${address}`);
  const taken =
    ownerOf(address, template.network ?? '', { namespace, name, current }, group, snapshot) ??
    limitReached({ namespace, name, group, account }, snapshot);
  if (taken !== undefined) return refused(taken);
  return { entry: entryOf(found, node, name, { address, account, network }) };
}

function entryOf(
  { meta, content }: Resource<'WorkloadGroup'>,
  node: ClaimingNode,
  name: string,
  { address, account, network }: { readonly address: string; readonly account: string; readonly network: string },
): AdmittedEntry {
  const { metadata = {}, template, probe } = content as WorkloadGroupSpec;
  const locality = template.locality || node.locality;
  const labels = { ...template.labels, ...metadata.labels };
  const probed = probe !== undefined;
  return {
    namespace: meta.namespace,
    name,
    group: meta.name,
    labels,
    annotations: {
      ...metadata.annotations,
      [GROUP_ANNOTATION]: meta.name,
      [HEALTH_CHECKED]: String(probed),
    },
    spec: {
      ...template,
      address,
      labels,
      serviceAccount: account,
      ...(network === '' ? {} : { network }),
      ...(locality === '' ? {} : { locality }),
    },
    probed,
  };
}

/** Whether other machines can reach this address: not loopback, link-local, multicast or unspecified. */
function isUsable(address: string): boolean {
  // `addressId` returns the 16 bytes of an IPv6 address.
  const bytes = addressId(address)?.split('.').map(Number) ?? [];
  const [first = 0, second = 0] = bytes;
  if (bytes.length === 4) return !([0, 127].includes(first) || first >= 224 || (first === 169 && second === 254));
  const isLinkLocal = first === 0xfe && second >> 6 === 2;
  return bytes.length === 16 && first !== 0 && first !== 0xff && !isLinkLocal;
}

interface Names {
  readonly namespace: string;
  readonly name: string;
  readonly current: string | undefined;
}

/**
 * Why the workload cannot have this name and address; undefined: it can. An address in another network may be the same
 * only if the group names the network, because a workload could declare any network.
 */
function ownerOf(
  address: string,
  network: string,
  { namespace, name, current }: Names,
  group: string,
  snapshot: Snapshot,
): string | undefined {
  const [owner] = network === '' ? snapshot.ownersOf(address) : [];
  if (owner !== undefined) return `${address} is an address of ${owner}`;
  const entries = entriesOf(snapshot);
  const same = entries.get(resourceKey('WorkloadEntry', namespace, name));
  if (same !== undefined && same.meta.annotations[GROUP_ANNOTATION] !== group)
    return `WorkloadEntry ${namespace}/${name} exists and was not registered for the group`;
  const id = addressId(address) ?? address;
  for (const { meta, content } of indexOf(entries).byAddress.get(id) ?? []) {
    const isOwn = meta.namespace === namespace && (meta.name === name || meta.name === current);
    if (!isOwn && (network === '' || (content.network ?? '') === network))
      return `${address} is the address of WorkloadEntry ${meta.namespace}/${meta.name}`;
  }
  const node = network === '' ? nodesOf(snapshot).get(id) : undefined;
  return node === undefined ? undefined : `${address} is an address of Node ${node}`;
}

interface Registered {
  readonly namespace: string;
  readonly name: string;
  readonly group: string;
  readonly account: string;
}

function limitReached({ namespace, name, group, account }: Registered, snapshot: Snapshot): string | undefined {
  const entries = entriesOf(snapshot);
  if (entries.get(resourceKey('WorkloadEntry', namespace, name)) !== undefined) return undefined;
  const { byGroup, byAccount } = indexOf(entries);
  if ((byGroup.get(`${namespace}/${group}`) ?? 0) >= MAX_PER_GROUP)
    return `the group already has ${MAX_PER_GROUP} workloads`;
  if ((byAccount.get(`${namespace}/${account}`) ?? 0) >= MAX_PER_ACCOUNT)
    return `the service account already has ${MAX_PER_ACCOUNT} registered workloads`;
  return undefined;
}

type Entries = ReturnType<typeof entriesOf>;
type Nodes = ReturnType<typeof nodeTableOf>;

const entriesOf = (snapshot: Snapshot) => snapshot.resources('WorkloadEntry');
const nodeTableOf = (snapshot: Snapshot) => snapshot.resources('Node');

interface EntryIndex {
  readonly byAddress: ReadonlyMap<string, readonly Resource<'WorkloadEntry'>[]>;
  /** Numbers of registered workloads, by `namespace/group` and `namespace/account`. */
  readonly byGroup: ReadonlyMap<string, number>;
  readonly byAccount: ReadonlyMap<string, number>;
}

/** One index for all workloads while no entry changes: there may be thousands of both. */
const indexes = new WeakMap<Entries, EntryIndex>();
const nodeIndexes = new WeakMap<Nodes, ReadonlyMap<string, string>>();

function indexOf(entries: Entries): EntryIndex {
  const known = indexes.get(entries);
  if (known !== undefined) return known;
  const byAddress = new Map<string, Resource<'WorkloadEntry'>[]>();
  const byGroup = new Map<string, number>();
  const byAccount = new Map<string, number>();
  const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
  for (const entry of entries.values()) {
    const { meta, content } = entry;
    const { address = '', serviceAccount = '' } = content;
    if (address !== '') {
      const id = addressId(address) ?? address;
      const others = byAddress.get(id);
      if (others === undefined) byAddress.set(id, [entry]);
      else others.push(entry);
    }
    const group = meta.annotations[GROUP_ANNOTATION];
    if (group === undefined) continue;
    count(byGroup, `${meta.namespace}/${group}`);
    count(byAccount, `${meta.namespace}/${serviceAccount}`);
  }
  const index = { byAddress, byGroup, byAccount };
  indexes.set(entries, index);
  return index;
}

function nodesOf(snapshot: Snapshot): ReadonlyMap<string, string> {
  const nodes = nodeTableOf(snapshot);
  const known = nodeIndexes.get(nodes);
  if (known !== undefined) return known;
  const byAddress = new Map<string, string>();
  for (const { meta, content } of nodes.values()) {
    for (const { address } of content.status?.addresses ?? []) byAddress.set(addressId(address) ?? address, meta.name);
  }
  nodeIndexes.set(nodes, byAddress);
  return byAddress;
}
