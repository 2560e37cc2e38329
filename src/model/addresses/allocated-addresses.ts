/**
 * Allocates addresses for hosts of ServiceEntries without addresses. A proxy distinguishes TCP services on the same
 * port by address, and the DNS server of its machine returns the allocated addresses. An address depends only on the
 * host name, so that it is the same in every replica and after a restart. If several host names lead to the same
 * address, the oldest host gets it, and the others get the next address of their sequence: only these hosts change when
 * another host is added or removed.
 *
 * Each host tries the addresses of its sequence until it finds one that no older host has. All hosts that tried an
 * address are recorded with it. The result is therefore independent of the order in which hosts are added, and a change
 * only affects hosts that tried the same addresses.
 *
 * A ServiceEntry may specify an address of this range. It competes with hosts by the same rule, like a host whose
 * sequence is only this address: otherwise a younger ServiceEntry of any namespace could take the address with a
 * suitable host name.
 */
import { PMap } from '../../core/pmap.ts';
import type { Slices } from '../../core/slices.ts';
import { type AnyResource, keyOf, type Resource, type ResourceChange } from '../../resources/index.ts';
import { GroupEdits, type Groups, membersOf } from '../common/groups.ts';
import { canonicalHost, isWildcardHost } from '../common/hosts.ts';
import { canonicalBytes } from '../common/networks.ts';
import { compareCreated, compareText, lowerBound } from '../common/order.ts';
import { ofKind } from '../common/tables.ts';
import { entryPorts, entryResolution } from '../services/definitions.ts';
import type { NameConflict, Service } from '../types/types.ts';
import { type AddressIndexes, addressOwner } from './address-owners.ts';

/** Prefix of a service's read of the address of a host, and of the host of an address. */
const ALLOCATED_READ = 'allocated:';

/**
 * Number of addresses: the largest prime for which the last octet is never 0 or 255, which some programs take for
 * networks and broadcasts. With a prime, a sequence with any step reaches all addresses.
 */
const SLOTS = 65_011;
const LAST_OCTETS = 254;
/** Length of a sequence. With half of the addresses in use, one host in 2^64 finds none. */
const MAX_TRIES = 64;

/** Index of an address: both families have one for each index. */
type Slot = number;

/** The addresses that a host tries, all different. */
interface Sequence {
  readonly tries: number;
  slotOf(host: string, index: number): Slot;
}

/** Prefix of a specified address, followed by its slot, in place of a host. No host begins with it. */
const WRITTEN = '=';

const SEQUENCE: Sequence = { tries: MAX_TRIES, slotOf };

interface Tried {
  /** Creation time of the oldest document that needs an address for the host. */
  readonly created: number | undefined;
  /** Number of addresses of its sequence that it tried: it has the last one, unless {@link found} is false. */
  readonly tries: number;
  readonly found: boolean;
}

export interface AllocatedAddresses {
  /**
   * Host, or specified address → keys of the ServiceEntries that need an address for the host, or specify the address.
   */
  readonly wanted: Groups;
  readonly hosts: PMap<Tried>;
  /** Slot → the hosts that tried it, and the specified address, oldest first: the first has it. */
  readonly slots: PMap<readonly string[]>;
}

export const NO_ALLOCATED_ADDRESSES: AllocatedAddresses = {
  wanted: PMap.empty(),
  hosts: PMap.empty(),
  slots: PMap.empty(),
};

/**
 * The hosts for which a resource needs an address, or its specified addresses. With resolution NONE, the proxy needs
 * the address that the client has used.
 */
function hostsWanting(resource: AnyResource | undefined): readonly string[] {
  const entry = ofKind(resource, 'ServiceEntry');
  if (entry === undefined) return [];
  const { addresses = [] } = entry.content;
  if (addresses.length > 0) return [...new Set(addresses.flatMap((address) => writtenKey(address) ?? []))];
  if (entryResolution(entry) === 'passthrough' || entryPorts(entry).every(({ protocol }) => protocol === 'UDP'))
    return [];
  return [...new Set(entry.content.hosts.map(canonicalHost))].filter((host) => !isWildcardHost(host));
}

/**
 * The addresses after a change of resources.
 * @param entries the resources after it
 * @param sequence the addresses that a host tries; tests have fewer
 */
export function* nextAllocatedAddresses(
  before: AllocatedAddresses,
  changed: readonly ResourceChange[],
  entries: PMap<Resource<'ServiceEntry'>>,
  sequence = SEQUENCE,
): Slices<AllocatedAddresses> {
  const edits = new GroupEdits();
  const touched = new Set<string>();
  for (const { before: was, after: is } of changed) {
    const entry = is ?? was;
    if (entry?.kind !== 'ServiceEntry') continue;
    const [old, current] = [hostsWanting(was), hostsWanting(is)];
    edits.move(keyOf(entry), old, current);
    for (const host of [...old, ...current]) touched.add(host);
    yield;
  }
  if (touched.size === 0) return before;
  const wanted = edits.apply(before.wanted);
  const allocation = new Allocation(before, sequence);
  for (const host of touched) {
    const keys = membersOf(wanted, host);
    const created = keys.map((key) => entries.get(key)?.meta.created).sort(compareCreated);
    const known = before.hosts.get(host);
    if (known !== undefined && keys.length > 0 && known.created === created[0]) continue;
    if (known !== undefined) allocation.remove(host);
    if (keys.length > 0) allocation.add(host, created[0]);
    yield;
  }
  return { wanted, ...allocation.result() };
}

class Allocation {
  readonly #before: AllocatedAddresses;
  readonly #sequence: Sequence;
  readonly #hosts = new Map<string, Tried | undefined>();
  readonly #slots = new Map<string, readonly string[]>();

  constructor(before: AllocatedAddresses, sequence: Sequence) {
    this.#before = before;
    this.#sequence = sequence;
  }

  result(): Pick<AllocatedAddresses, 'hosts' | 'slots'> {
    const { hosts, slots } = this.#before;
    const edited = [...this.#slots].map(([slot, list]) => [slot, list.length === 0 ? undefined : list] as const);
    return { hosts: hosts.with(this.#hosts), slots: slots.with(edited) };
  }

  add(host: string, created: number | undefined): void {
    this.#hosts.set(host, { created, tries: 0, found: false });
    let current: string | undefined = host;
    while (current !== undefined) current = this.#try(current);
  }

  /** Continues a host's sequence until it finds an address. Returns the younger host that has lost this address. */
  #try(host: string): string | undefined {
    const { created, tries: tried } = this.#tried(host);
    const length = host.startsWith(WRITTEN) ? 1 : this.#sequence.tries;
    for (let tries = tried; tries < length; tries++) {
      const slot = this.#slotOf(host, tries);
      const list = this.#triedBy(slot);
      // Any number of host names may lead to the same address.
      const at = lowerBound(list.length, (index) => this.#isOlder(host, list[index] ?? ''));
      this.#slots.set(slot, list.toSpliced(at, 0, host));
      if (at > 0) continue;
      this.#hosts.set(host, { created, tries: tries + 1, found: true });
      return list[0];
    }
    this.#hosts.set(host, { created, tries: length, found: false });
    return undefined;
  }

  remove(host: string): void {
    const { tries } = this.#tried(host);
    this.#hosts.set(host, undefined);
    this.#withdraw(host, 0, tries);
  }

  /**
   * Removes a host from these addresses of its sequence. If it had one of them, the oldest of the other hosts gets that
   * address.
   */
  #withdraw(host: string, from: number, end: number): void {
    for (let index = from; index < end; index++) {
      const slot = this.#slotOf(host, index);
      const list = this.#triedBy(slot);
      const rest = list.filter((other) => other !== host);
      this.#slots.set(slot, rest);
      const [heir] = rest;
      if (list[0] === host && heir !== undefined) this.#return(heir, slot);
    }
  }

  /** An address that a host had tried without success has become free for it. */
  #return(host: string, slot: string): void {
    const { created, tries } = this.#tried(host);
    let index = 0;
    while (this.#slotOf(host, index) !== slot) index++;
    this.#hosts.set(host, { created, tries: index + 1, found: true });
    this.#withdraw(host, index + 1, tries);
  }

  #slotOf(host: string, index: number): string {
    return host.startsWith(WRITTEN) ? host.slice(WRITTEN.length) : String(this.#sequence.slotOf(host, index));
  }

  #isOlder(host: string, other: string): boolean {
    return (compareCreated(this.#tried(host).created, this.#tried(other).created) || compareText(host, other)) < 0;
  }

  #tried(host: string): Tried {
    const known = this.#hosts.has(host) ? this.#hosts.get(host) : this.#before.hosts.get(host);
    return known ?? { created: undefined, tries: 0, found: false };
  }

  #triedBy(slot: string): readonly string[] {
    return this.#slots.get(slot) ?? membersOf(this.#before.slots, slot);
  }
}

function slotOf(host: string, index: number): Slot {
  return (hashOf(host, 0x811c9dc5) + index * (1 + (hashOf(host, 0x2f0b4a5d) % (SLOTS - 1)))) % SLOTS;
}

/** FNV-1a with the final mixing of MurmurHash3: similar names get addresses that are not related. */
function hashOf(text: string, seed: number): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** The IPv4 and the IPv6 address: 240.240.0.0/16 and 2001:2::f0f0:0/112. */
function addressesOfSlot(slot: Slot): readonly string[] {
  const [third, fourth] = [Math.floor(slot / LAST_OCTETS), 1 + (slot % LAST_OCTETS)];
  return [`240.240.${third}.${fourth}`, `2001:2::f0f0:${((third << 8) | fourth).toString(16)}`];
}

const MAYBE_ALLOCATED = /^0*240\.|:/;
const IPV4_PREFIX = [240, 240];
const IPV6_PREFIX = [0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0xf0];

/** The slot of an address; undefined for a range and for an address that is never allocated. */
function slotOfAddress(written: string): Slot | undefined {
  // Most addresses are not allocated ones.
  if (!MAYBE_ALLOCATED.test(written)) return undefined;
  const [address = '', length] = written.split('/');
  const bytes = canonicalBytes(address) ?? [];
  if (length !== undefined && Number(length) !== bytes.length * 8) return undefined;
  const prefix = bytes.length === 4 ? IPV4_PREFIX : IPV6_PREFIX;
  if (!prefix.every((byte, index) => bytes[index] === byte)) return undefined;
  const [third = 0, fourth = 0] = bytes.slice(-2);
  const slot = third * LAST_OCTETS + fourth - 1;
  return fourth > 0 && fourth <= LAST_OCTETS && slot < SLOTS ? slot : undefined;
}

function writtenKey(address: string): string | undefined {
  const slot = slotOfAddress(address);
  return slot === undefined ? undefined : `${WRITTEN}${slot}`;
}

/** Reads of services that a change of the addresses affects. */
export function changedAllocations(before: AllocatedAddresses, after: AllocatedAddresses): readonly string[] {
  if (before === after) return [];
  const hosts = after.hosts.changedKeys(before.hosts);
  const slots = after.slots.changedKeys(before.slots);
  return [...hosts, ...slots].map((key) => `${ALLOCATED_READ}${key}`);
}

/**
 * A ServiceEntry's service with its addresses for proxies that capture DNS: an allocated address for a host without
 * addresses, unless a Service or Pod has it, and without specified addresses that are allocated to an older host. Adds
 * the keys that it looks up to `reads`.
 */
export function withAllocatedAddresses(
  service: Service,
  indexes: AddressIndexes & { readonly allocatedAddresses: AllocatedAddresses },
  reads: Set<string>,
): { readonly service: Service; readonly conflicts: readonly NameConflict[] } {
  const { hosts, slots } = indexes.allocatedAddresses;
  const { registry, hostname, addresses, source } = service;
  if (registry !== 'External') return { service, conflicts: [] };
  if (addresses.length > 0) {
    const conflicts: NameConflict[] = [];
    const own = addresses.filter((address) => {
      const slot = slotOfAddress(address);
      if (slot === undefined) return true;
      reads.add(`${ALLOCATED_READ}${slot}`);
      const [first = hostname] = membersOf(slots, String(slot));
      if (first === hostname || first.startsWith(WRITTEN)) return true;
      const message = `${source}: address ${address} is allocated to host ${first} for proxies that capture DNS`;
      conflicts.push({ resource: source, message: `${message}; the entry is ignored for these proxies` });
      return false;
    });
    return { service: conflicts.length === 0 ? service : { ...service, allocatedAddresses: own }, conflicts };
  }
  if (service.resolution === 'passthrough' || isWildcardHost(hostname)) return { service, conflicts: [] };
  reads.add(`${ALLOCATED_READ}${hostname}`);
  const tried = hosts.get(hostname);
  if (tried === undefined) return { service, conflicts: [] };
  if (!tried.found) {
    const message = `${source}: no address is allocated to host ${hostname}: all ${MAX_TRIES} candidates are in use`;
    return { service, conflicts: [{ resource: source, message }] };
  }
  const conflicts: NameConflict[] = [];
  const allocatedAddresses = addressesOfSlot(slotOf(hostname, tried.tries - 1)).filter((address) => {
    // Clusters may have Pods and Services with these addresses: a listener would intercept connections to them.
    const owner = addressOwner(address, indexes, reads);
    if (owner === undefined) return true;
    const message = `${source}: host ${hostname} does not get its allocated address ${address}: it belongs to ${owner}`;
    conflicts.push({ resource: source, message });
    return false;
  });
  return { service: { ...service, allocatedAddresses }, conflicts };
}
