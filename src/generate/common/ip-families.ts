/**
 * The address families of a proxy's machine. They decide where its listeners bind (Envoy rejects a listener on `::` if
 * IPv6 is disabled), which addresses of services get listeners, and which of a workload's addresses it uses.
 */
import type { Memos } from '../../core/memo.ts';
import type { Endpoint } from '../../model/index.ts';
import type { IpFamily, NodeFamilies } from '../views.ts';
import { isIpAddress } from './values.ts';

/** The only part of a view that is read here. */
export interface OnFamilies {
  readonly families: NodeFamilies;
}

const WILDCARD: Readonly<Record<IpFamily, string>> = { ipv4: '0.0.0.0', ipv6: '::' };
const LOOPBACK: Readonly<Record<IpFamily, string>> = { ipv4: '127.0.0.1', ipv6: '::1' };
const LISTS: Readonly<Record<NodeFamilies, readonly IpFamily[]>> = {
  ipv4: ['ipv4'],
  ipv6: ['ipv6'],
  dual: ['ipv4', 'ipv6'],
};

/**
 * The families of a node by its own addresses; `ipv4` for a node without a usable address. Link-local IPv6 addresses
 * are not usable for other machines.
 */
export function familiesOfNode(addresses: readonly string[]): NodeFamilies {
  const found = new Set(addresses.filter((each) => isIpAddress(each) && !LINK_LOCAL.test(each)).map(familyOf));
  if (!found.has('ipv6')) return 'ipv4';
  return found.has('ipv4') ? 'dual' : 'ipv6';
}

const LINK_LOCAL = /^fe[89ab][0-9a-f]:/i;

export function familyOf(address: string): IpFamily {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}

/** The families of a node, IPv4 first. */
export function familiesOf({ families }: OnFamilies): readonly IpFamily[] {
  return LISTS[families];
}

/** Whether connections to an IP address, or to addresses of a range, can occur on the node. */
export function hasFamilyOf({ families }: OnFamilies, address: string): boolean {
  return families === 'dual' || families === familyOf(address);
}

/** The addresses of a listener: the one in its name, and another on a machine with both families. */
export interface Binds {
  readonly bind: string;
  readonly extraBind: string | undefined;
}

export function wildcardBinds(node: OnFamilies): Binds {
  return bindsOf(node, WILDCARD);
}

/** The addresses at which a proxy without redirection accepts its clients. */
export function loopbackBinds(node: OnFamilies): Binds {
  return bindsOf(node, LOOPBACK);
}

function bindsOf(node: OnFamilies, addresses: Readonly<Record<IpFamily, string>>): Binds {
  const [first = 'ipv4', second] = familiesOf(node);
  return { bind: addresses[first], extraBind: second && addresses[second] };
}

interface ByFamilies {
  /** Absent if all endpoints have the same family. */
  readonly lists: Readonly<Record<NodeFamilies, readonly Endpoint[]>> | undefined;
}

/**
 * The endpoints for a node with these families: the same list object if all have the same family, or none has an IP
 * address. Otherwise the endpoints of the node's family; a node with both families only uses IPv4 for a workload with
 * both, so that the workload counts once. If a service has no endpoint of the node's family, the node gets the others,
 * because an IPv6-only machine may use NAT64.
 */
export function reachableEndpoints(
  memos: Memos,
  endpoints: readonly Endpoint[],
  { families }: OnFamilies,
): readonly Endpoint[] {
  const split = memos.weak<readonly Endpoint[], ByFamilies>('endpoints by family');
  const { lists } = split.get(endpoints, () => ({ lists: splitByFamily(endpoints) }));
  return lists?.[families] ?? endpoints;
}

function splitByFamily(endpoints: readonly Endpoint[]): ByFamilies['lists'] {
  const ofFamily = (family: IpFamily) =>
    endpoints.filter(({ address }) => !isIpAddress(address) || familyOf(address) === family);
  const [ipv4, ipv6] = [ofFamily('ipv4'), ofFamily('ipv6')];
  if (ipv4.length === endpoints.length || ipv6.length === endpoints.length) return undefined;
  const byIpv4 = new Set(ipv4.map(workloadPort));
  const dual = endpoints.filter(
    (each) => !isIpAddress(each.address) || familyOf(each.address) === 'ipv4' || !byIpv4.has(workloadPort(each)),
  );
  return { ipv4, ipv6, dual };
}

/** Identifies one port of one workload; unnamed workloads are identified by their addresses. */
function workloadPort({ workload, address, servicePort, port }: Endpoint): string {
  const name = workload === undefined ? `\n${address}` : `${workload.namespace}/${workload.name}`;
  return `${name}\n${servicePort}\n${port}`;
}
