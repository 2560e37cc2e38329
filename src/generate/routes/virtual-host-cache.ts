/**
 * Encoded virtual hosts, kept from one generation to the next, so that a change of one service does not cost the encoding of
 * every virtual host that stands beside it in a route configuration.
 *
 * An entry holds for the objects it was made of (a service, virtual services: immutable, replaced when they change), the key,
 * and the answers to everything it asked while it was made. All of that is compared before the bytes are used again. Entries
 * hang on the first of the objects by weak reference, and go with it.
 */
import { encode, envoy } from '../../protobuf/index.ts';
import type { RouteContext, RouteLookups } from './context.ts';
import type { VirtualHostMessage } from './messages.ts';

/** A question and its answer; asking again must give the identical answer for the bytes to stand. */
interface Read {
  readonly ask: (lookups: RouteLookups) => unknown;
  readonly answer: unknown;
}

interface Entry {
  readonly key: string;
  readonly made: readonly object[];
  readonly reads: readonly Read[];
  readonly bytes: Uint8Array;
}

/** What a virtual host is made of. `made` is never empty; `key` names every other input that is not asked by lookups. */
export interface VirtualHostInputs {
  readonly made: readonly [object, ...object[]];
  readonly key: string;
}

/** Entries by object: a few for each port, as its own namespace and the others see it. The oldest goes first. */
const MAX_ENTRIES = 32;

const entriesByObject = new WeakMap<object, Entry[]>();

/** The encoded virtual host, built only when no entry holds. `build` must read through the lookups it is given. */
export function encodedVirtualHost(
  { made, key }: VirtualHostInputs,
  lookups: RouteLookups,
  build: (lookups: RouteLookups) => VirtualHostMessage,
): Uint8Array {
  let entries = entriesByObject.get(made[0]);
  if (entries === undefined) {
    entries = [];
    entriesByObject.set(made[0], entries);
  }
  const known = entries.find((entry) => holds(entry, made, key, lookups));
  if (known !== undefined) return known.bytes;
  const reads: Read[] = [];
  const bytes = encode(envoy.config.route.v3.VirtualHost, build(recording(lookups, reads)));
  if (entries.length >= MAX_ENTRIES) entries.shift();
  entries.push({ key, made, reads, bytes });
  return bytes;
}

/** The part of a key that says what a context holds besides port and lookups. */
export function contextKey({ gateway, defaultTimeoutMs, features }: RouteContext): string {
  const { cors, fault, previousHosts, previousPriorities } = features;
  return [gateway, defaultTimeoutMs, cors, fault, previousHosts, previousPriorities].join(' ');
}

function holds(entry: Entry, made: readonly object[], key: string, lookups: RouteLookups): boolean {
  return (
    entry.key === key &&
    entry.made.length === made.length &&
    entry.made.every((object, index) => object === made[index]) &&
    entry.reads.every(({ ask, answer }) => Object.is(ask(lookups), answer))
  );
}

function recording(lookups: RouteLookups, reads: Read[]): RouteLookups {
  function record<T>(ask: (lookups: RouteLookups) => T): T {
    const answer = ask(lookups);
    reads.push({ ask, answer });
    return answer;
  }
  return {
    onlyPort: (host) => record((l) => l.onlyPort(host)),
    consistentHash: (host, subset, port) => record((l) => l.consistentHash(host, subset, port)),
    isFrom: (namespace) => record((l) => l.isFrom(namespace)),
    hasLabels: (labels) => record((l) => l.hasLabels(labels)),
  };
}
