/**
 * The names of the mesh with their addresses, compiled for lookups: an index of the names, and one array with all
 * addresses. 10,000 names take some 2 MiB.
 */
import { isIP } from 'node:net';
import { addressBytes } from '../wire/addresses.ts';

/** The addresses of one name of the mesh. */
export interface NameEntry {
  /** IPv4 and IPv6 addresses; empty for a name that exists without an address. */
  readonly ips: readonly string[];
}

/** Immutable; a change of the names is a new table. */
export interface NameTable {
  /** How many names it has. */
  readonly size: number;
  /** How many names and addresses were left out because they are invalid. */
  readonly invalid: number;
  /** How many of them are wildcards. */
  readonly wildcards: number;
  has(name: string): boolean;
  /** The addresses of one family, 4 or 16 bytes each, one after the other; undefined for a name that is not known. */
  addresses(name: string, family: 4 | 6): Uint8Array | undefined;
}

const LABEL = /^[!-\-/-~]{1,63}$/;
const MAX_NAME = 253;

/**
 * @param entries by name, without regard to case; a dot at the end is ignored. `*.example.com` stands for all names
 *   below example.com, at any depth. Invalid names and addresses are left out and counted.
 */
export function createNameTable(entries: Iterable<readonly [name: string, entry: NameEntry]>): NameTable {
  const index = new Map<string, number>();
  /** Three numbers a name: where its addresses begin, where those of IPv6 begin, where they end. */
  const bounds: number[] = [];
  let bytes = new Uint8Array(1024);
  let [used, invalid, wildcards] = [0, 0, 0];
  const append = (address: Uint8Array): void => {
    if (used + address.length > bytes.length) {
      const larger = new Uint8Array(bytes.length * 2);
      larger.set(bytes);
      bytes = larger;
    }
    bytes.set(address, used);
    used += address.length;
  };
  for (const [text, { ips }] of entries) {
    const name = text.replace(/\.$/, '').toLowerCase();
    if (name.length > MAX_NAME || !name.split('.').every((label) => LABEL.test(label))) {
      invalid++;
      continue;
    }
    if (name.startsWith('*.') && !index.has(name)) wildcards++;
    index.set(name, bounds.length);
    const start = used;
    for (const ip of ips) if (isIP(ip) === 4) append(addressBytes(ip));
    const start6 = used;
    for (const ip of ips) if (isIP(ip) === 6) append(addressBytes(ip));
    invalid += ips.filter((ip) => isIP(ip) === 0).length;
    bounds.push(start, start6, used);
  }
  const all = bytes.slice(0, used);
  const offsets = Uint32Array.from(bounds);
  return {
    size: index.size,
    invalid,
    wildcards,
    has: (name) => index.has(name),
    addresses(name, family) {
      const at = index.get(name);
      if (at === undefined) return undefined;
      const first = family === 4 ? at : at + 1;
      return all.subarray(offsets[first], offsets[first + 1]);
    },
  };
}

export const EMPTY_NAME_TABLE: NameTable = createNameTable([]);
