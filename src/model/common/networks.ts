/** Finds the network of an endpoint that does not name one in the mesh networks, by its registry or its address. */
import type { MeshNetworks } from '../../resources/index.ts';
import { compareText } from './order.ts';

/** Bytes of an IPv4 or IPv6 address (dotted tail allowed); undefined for anything else. */
export function addressBytes(address: string): readonly number[] | undefined {
  if (!address.includes(':')) return ipv4Bytes(address);
  const [head = '', tail, ...more] = address.split('::');
  if (more.length > 0) return undefined;
  const left = groupBytes(head);
  const right = tail === undefined ? [] : groupBytes(tail);
  if (left === undefined || right === undefined) return undefined;
  const missing = 16 - left.length - right.length;
  if (tail === undefined ? missing !== 0 : missing < 2) return undefined;
  return [...left, ...new Array<number>(missing).fill(0), ...right];
}

function ipv4Bytes(address: string): number[] | undefined {
  const parts = address.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256)) return undefined;
  return parts.map(Number);
}

function groupBytes(text: string): number[] | undefined {
  if (text === '') return [];
  const bytes: number[] = [];
  for (const group of text.split(':')) {
    const dotted = group.includes('.') ? ipv4Bytes(group) : undefined;
    if (dotted !== undefined) bytes.push(...dotted);
    else if (/^[0-9a-f]{1,4}$/i.test(group))
      bytes.push(Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255);
    else return undefined;
  }
  return bytes;
}

/** Like {@link addressBytes}, but an IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2) gives the IPv4 bytes. */
export function canonicalBytes(address: string): readonly number[] | undefined {
  const bytes = addressBytes(address);
  if (bytes?.length !== 16) return bytes;
  const mapped = bytes[10] === 255 && bytes[11] === 255 && bytes.slice(0, 10).every((byte) => byte === 0);
  return mapped ? bytes.slice(12) : bytes;
}

/** An IPv4 address in the form of {@link addressId}: without leading zeros. */
const PLAIN_IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/**
 * A canonical form of an IP address, also for one with full prefix length (`/32`, `/128`); undefined for anything else.
 */
export function addressId(written: string): string | undefined {
  if (PLAIN_IPV4.test(written)) return written;
  const [address = '', length] = written.split('/');
  const bytes = addressBytes(address)?.length ?? 0;
  if (length !== undefined && Number(length) !== bytes * 8) return undefined;
  return canonicalBytes(address)?.join('.');
}

export function isIpAddress(address: string): boolean {
  return addressBytes(address) !== undefined;
}

interface Range {
  readonly network: string;
  readonly bytes: readonly number[];
  readonly bits: number;
}

function parseRange(network: string, cidr: string): Range | undefined {
  const [address = '', length] = cidr.split('/');
  const bytes = addressBytes(address);
  const bits = length === '' ? Number.NaN : Number(length);
  if (bytes === undefined || !Number.isInteger(bits) || bits < 0 || bits > bytes.length * 8) return undefined;
  return { network, bytes, bits };
}

function contains(range: Range, bytes: readonly number[]): boolean {
  if (range.bytes.length !== bytes.length) return false;
  for (let i = 0; i * 8 < range.bits; i++) {
    const mask = (0xff00 >> Math.min(8, range.bits - i * 8)) & 0xff;
    if (((range.bytes[i] ?? 0) & mask) !== ((bytes[i] ?? 0) & mask)) return false;
  }
  return true;
}

/** The network that names the registry of a cluster; undefined if there is none. */
export function networkOfRegistry({ networks }: MeshNetworks, cluster: string | undefined): string | undefined {
  if (cluster === undefined) return undefined;
  const named = Object.keys(networks).sort(compareText);
  return named.find((name) => networks[name]?.endpoints.some(({ fromRegistry }) => fromRegistry === cluster));
}

/** Finds the network of an address in a cluster (undefined: the program's own); '' when it has none. */
export type NetworkFinder = (address: string, cluster: string | undefined) => string;

/**
 * If a network names the cluster's registry, all addresses of the cluster are in this network; otherwise the longest
 * CIDR range decides. This is the order of Istio 1.7, which ignores CIDR ranges for a registry that a network names.
 * @param clusterId of the program's own cluster
 */
export function networkFinder(networks: MeshNetworks, clusterId: string): NetworkFinder {
  const ranges: Range[] = [];
  const registries = new Map<string, string>();
  const named = Object.entries(networks.networks).sort(([a], [b]) => compareText(a, b));
  for (const [name, network] of named) {
    for (const { fromCidr, fromRegistry } of network.endpoints) {
      const range = fromCidr === undefined ? undefined : parseRange(name, fromCidr);
      if (range !== undefined) ranges.push(range);
      if (fromRegistry !== undefined && !registries.has(fromRegistry)) registries.set(fromRegistry, name);
    }
  }
  ranges.sort((a, b) => b.bits - a.bits || compareText(a.network, b.network));
  return (address, cluster = clusterId) => {
    const network = registries.get(cluster);
    if (network !== undefined) return network;
    const bytes = ranges.length === 0 ? undefined : addressBytes(address);
    return (bytes && ranges.find((each) => contains(each, bytes))?.network) ?? '';
  };
}
