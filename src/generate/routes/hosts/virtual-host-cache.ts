/**
 * Caches encoded virtual hosts from one generation to the next, so that a change of one service does not cost the
 * encoding of every other virtual host in its route configuration.
 *
 * An entry is valid for its input objects (a service, virtual services: immutable, replaced when they change), the key,
 * and the results of all lookups of its generation. All of these are compared before the bytes are used again. Entries
 * are attached to the first of the objects by weak reference, and are freed with it.
 */
import type { Memos } from '../../../core/memo.ts';
import type { RouteLookups } from '../context.ts';
import type { VirtualHostMessage } from '../messages.ts';
import { encodeVirtualHost } from '../route-configuration.ts';

/** A lookup and its result; what was made with it is valid while the lookup returns the identical result. */
export interface Read {
  readonly lookUp: (lookups: RouteLookups) => unknown;
  readonly result: unknown;
}

interface Entry extends VirtualHostInputs {
  readonly reads: readonly Read[];
  readonly bytes: Uint8Array;
}

/** The inputs of a virtual host. `objects` is never empty; `key` identifies every other input that is not a lookup. */
export interface VirtualHostInputs {
  readonly objects: readonly [object, ...object[]];
  readonly name: string;
  readonly domains: readonly string[];
  readonly key: string;
}

/**
 * Maximum entries by object: a few for each port, as its own namespace and the others see it. The oldest is evicted
 * first.
 */
const MAX_ENTRIES = 32;

/** Cached virtual hosts that are attached to one object. */
export type CachedVirtualHosts = Entry[];

/** @param anchor the first of the objects that a virtual host is built from */
export function cachedVirtualHosts(memos: Memos, anchor: object): CachedVirtualHosts {
  return memos.weak<object, CachedVirtualHosts>('virtual hosts').get(anchor, () => []);
}

/**
 * The encoded virtual host (see {@link encodeVirtualHost}), built only when no entry is valid. `build` must read
 * through the given lookups.
 */
export function encodedVirtualHost(
  inputs: VirtualHostInputs,
  lookups: RouteLookups,
  build: (lookups: RouteLookups) => VirtualHostMessage,
  entries: CachedVirtualHosts,
): Uint8Array {
  for (const entry of entries) if (isValid(entry, inputs, lookups)) return entry.bytes;
  const reads: Read[] = [];
  const bytes = encodeVirtualHost(build(recording(lookups, reads)));
  if (entries.length >= MAX_ENTRIES) entries.shift();
  entries.push({ ...inputs, reads, bytes });
  return bytes;
}

function isValid(entry: Entry, { objects, name, domains, key }: VirtualHostInputs, lookups: RouteLookups): boolean {
  if (entry.key !== key || entry.name !== name) return false;
  if (entry.domains !== domains && !areSame(entry.domains, domains)) return false;
  if (!areSame(entry.objects, objects)) return false;
  return areUnchanged(entry.reads, lookups);
}

/** Whether the lookups return what they returned before. */
export function areUnchanged(reads: readonly Read[], lookups: RouteLookups): boolean {
  for (const { lookUp, result } of reads) if (!Object.is(lookUp(lookups), result)) return false;
  return true;
}

function areSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Lookups that are recorded with their results. */
export function recording(lookups: RouteLookups, reads: Read[]): RouteLookups {
  function record<T>(lookUp: (lookups: RouteLookups) => T): T {
    const result = lookUp(lookups);
    reads.push({ lookUp, result });
    return result;
  }
  return {
    onlyPort: (host) => record((l) => l.onlyPort(host)),
    consistentHash: (host, subset, port) => record((l) => l.consistentHash(host, subset, port)),
    isFrom: (namespace) => record((l) => l.isFrom(namespace)),
    hasLabels: (labels) => record((l) => l.hasLabels(labels)),
  };
}
