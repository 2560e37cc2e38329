/**
 * The outbound clusters that encoded resources name: found in their bytes, so that no field can be forgotten that
 * refers to a cluster (routes, weights, mirrors, authorizers, access logs, tracers, TCP proxies). Each string of a
 * message follows its length.
 */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import type { Bundle, EncodedResource } from '../../push/index.ts';
import { type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';

/** With this begin the names of the clusters that proxies may ask for. Each proxy has all other clusters. */
export const OUTBOUND_PREFIX = 'outbound|';

const PREFIX = Buffer.from(OUTBOUND_PREFIX);
/** Part of the names of secrets that `ctl-discovery` serves: Envoy uses such a cluster when it has the secret. */
const SECRET_PREFIX = 'kubernetes://';
const CONTINUES = 0x80;

/** Length of the string that begins at `start`; 0 if no string can begin there. */
function lengthBefore(bytes: Uint8Array, start: number): number {
  const last = bytes[start - 1] ?? 0;
  if (last >= CONTINUES) return 0;
  if (last >= PREFIX.length) return last;
  // A length of two bytes: the first one has the lower bits.
  const first = bytes[start - 2] ?? 0;
  return first >= CONTINUES ? (first & ~CONTINUES) | (last << 7) : 0;
}

/** The names of outbound clusters in a message. May contain strings that only look like one. */
export function clusterNamesIn(bytes: Uint8Array): ReadonlySet<string> {
  const found = new Set<string>();
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = buffer.indexOf(PREFIX); at >= 0; at = buffer.indexOf(PREFIX, at + 1)) {
    const end = at + lengthBefore(bytes, at);
    if (end > at && end <= bytes.length) found.add(buffer.toString('utf8', at, end));
  }
  return found;
}

/**
 * Whether a proxy has a cluster from the start. Envoy uses clusters without EDS once names are resolved, and those with
 * secrets of `ctl-discovery` once it has the secret: the first request would be too early.
 */
export function isUnaskable({ name, refs, fragment }: EncodedResource): boolean {
  if (!name.startsWith(OUTBOUND_PREFIX) || refs.length === 0) return true;
  return Buffer.from(fragment.buffer, fragment.byteOffset, fragment.length).includes(SECRET_PREFIX);
}

/** The clusters that bundles name, of one server. */
export class ClusterNames {
  readonly #names: NameSets;
  readonly #ofResource: WeakMemo<EncodedResource, ReadonlySet<string>>;
  readonly #ofBundle: WeakMemo<Bundle, NameSet>;

  constructor(names: NameSets, memos: Memos) {
    this.#names = names;
    this.#ofResource = memos.weak('clusters that resources name');
    this.#ofBundle = memos.weak('clusters that bundles name');
  }

  ofResource(resource: EncodedResource): ReadonlySet<string> {
    return this.#ofResource.get(resource, () => clusterNamesIn(resource.fragment.subarray(resource.anyOffset)));
  }

  ofBundle(bundle: Bundle): NameSet {
    return this.#ofBundle.get(bundle, () =>
      this.#names.of(bundle.resources().flatMap((resource) => [...this.ofResource(resource)])),
    );
  }

  ofBundles(bundles: readonly Bundle[]): NameSet {
    return bundles.reduce((all, bundle) => this.#names.change(all, this.ofBundle(bundle), NO_NAMES), NO_NAMES);
  }
}
