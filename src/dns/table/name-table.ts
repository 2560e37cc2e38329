/**
 * Names with their addresses, compiled for lookups: an index of the names in wire format, and one array with all
 * addresses. 10,000 names take some 2 MiB.
 */
import { isIP } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { nameBytes } from '../wire/records.ts';

export interface NameEntry {
  /** IPv4 and IPv6 addresses; empty for a name that exists without an address. */
  readonly ips: readonly string[];
}

export type NameId = number;

/** An id is valid until the names change. */
export interface NameTable {
  readonly size: number;
  /** How many names and addresses were left out because they are invalid. */
  readonly invalid: number;
  readonly wildcards: number;
  /** @param name lower case, without a dot at the end */
  find(name: string): NameId | undefined;
  /** @param wireName lower case, see DnsQuery; a wildcard is found only by its own name */
  findWire(wireName: string): NameId | undefined;
  /** The addresses of one family, 4 or 16 bytes each, one after the other. */
  addresses(id: NameId, family: 4 | 6): Uint8Array;
}

/** Immutable. */
export interface CompiledNames extends NameTable {
  /** Lower case, each once. */
  wireNames(): Iterable<string>;
}

/** Labels of printable characters, separated by dots. */
const NAME = /^(?=.{1,253}$)[!-\-/-~]{1,63}(?:\.[!-\-/-~]{1,63})*$/;
const UPPER_CASE = /[A-Z]/;

export type NameEntries = Iterable<readonly [name: string, entry: NameEntry]>;

/** Number of names that are processed in one slice, which takes less than a millisecond. */
const SLICE = 200;

/** Work on many names in slices, between which queries are answered. */
export class NameSlices {
  #count = 0;

  /** To be awaited after each name, if there is a promise. */
  next(): Promise<void> | undefined {
    return ++this.#count % SLICE === 0 ? setImmediate() : undefined;
  }
}

/**
 * @param entries by name, without regard to case; a dot at the end is ignored. `*.example.com` stands for all names
 *   below example.com, at any depth. Invalid names and addresses are left out and counted.
 */
export function createNameTable(entries: NameEntries): NameTable {
  const builder = new TableBuilder();
  for (const [name, entry] of entries) builder.add(name, entry);
  return builder.table();
}

/** The same in slices. */
export async function buildNameTable(entries: NameEntries, slices: NameSlices): Promise<CompiledNames> {
  const builder = new TableBuilder();
  for (const [name, entry] of entries) {
    builder.add(name, entry);
    const pause = slices.next();
    if (pause !== undefined) await pause;
  }
  return builder.table();
}

class TableBuilder {
  /** Names in wire format → ids. */
  readonly #index = new Map<string, NameId>();
  /** Three numbers a name: where its addresses begin, where those of IPv6 begin, where they end. */
  readonly #bounds: number[] = [];
  #bytes = new Uint8Array(1024);
  #used = 0;
  #invalid = 0;
  #wildcards = 0;

  add(text: string, { ips }: NameEntry): void {
    const bare = text.endsWith('.') ? text.slice(0, -1) : text;
    const name = UPPER_CASE.test(bare) ? bare.toLowerCase() : bare;
    if (!NAME.test(name)) {
      this.#invalid++;
      return;
    }
    const wireName = toWireName(name);
    if (name.startsWith('*.') && !this.#index.has(wireName)) this.#wildcards++;
    this.#index.set(wireName, this.#bounds.length);
    const start = this.#used;
    const later: string[] = [];
    for (const ip of ips) {
      const family = isIP(ip);
      if (family === 4) this.#append(addressBytes(ip));
      else if (family === 6) later.push(ip);
      else this.#invalid++;
    }
    const start6 = this.#used;
    for (const ip of later) this.#append(addressBytes(ip));
    this.#bounds.push(start, start6, this.#used);
  }

  #append(address: Uint8Array): void {
    if (this.#used + address.length > this.#bytes.length) {
      const larger = new Uint8Array(this.#bytes.length * 2);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(address, this.#used);
    this.#used += address.length;
  }

  table(): CompiledNames {
    const index = this.#index;
    const all = this.#bytes.slice(0, this.#used);
    const offsets = Uint32Array.from(this.#bounds);
    return {
      size: index.size,
      invalid: this.#invalid,
      wildcards: this.#wildcards,
      find: (name) => index.get(toWireName(name)),
      findWire: (wireName) => index.get(wireName),
      wireNames: () => index.keys(),
      addresses(id, family) {
        const first = family === 4 ? id : id + 1;
        return all.subarray(offsets[first], offsets[first + 1]);
      },
    };
  }
}

export function toWireName(name: string): string {
  const bytes = nameBytes(name);
  return bytes.toString('latin1', 0, bytes.length - 1);
}

export const EMPTY_NAME_TABLE: NameTable = createNameTable([]);

/** The 4 or 16 bytes of a valid address in wire format, IPv6 with or without a zone. */
export function addressBytes(ip: string): Uint8Array {
  return ip.includes(':') ? ipv6Bytes(ip.replace(/%.*$/, '')) : ipv4Bytes(ip);
}

function ipv4Bytes(ip: string): Uint8Array {
  const bytes = new Uint8Array(4);
  let at = 0;
  for (let index = 0; index < ip.length; index++) {
    const digit = ip.charCodeAt(index) - 0x30;
    if (digit < 0) at++;
    else bytes[at] = (bytes[at] ?? 0) * 10 + digit;
  }
  return bytes;
}

function ipv6Bytes(ip: string): Uint8Array {
  const dotted = ip.lastIndexOf('.') < 0 ? undefined : addressBytes(ip.slice(ip.lastIndexOf(':') + 1));
  const [head = '', tail] = (dotted === undefined ? ip : `${ip.slice(0, ip.lastIndexOf(':') + 1)}0:0`).split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':')).map((group) => Number.parseInt(group, 16));
  const [first, last] = [groups(head), groups(tail ?? '')];
  const words = [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
  const bytes = Uint8Array.from(words.flatMap((word) => [word >> 8, word & 0xff]));
  if (dotted !== undefined) bytes.set(dotted, 12);
  return bytes;
}
