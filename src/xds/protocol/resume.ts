/**
 * Decides what to send to a proxy that reconnects with `initial_resource_versions`: usually nothing, to thousands of
 * proxies at once that report the same thousands of versions. The comparison with the largest part, which they share,
 * is computed once for all of them.
 */
import { type Memos, type WeakMemo, WeakPairMemo } from '../../core/memo.ts';
import type { Bundle } from '../../push/index.ts';
import { findResource, type KnownResource } from './client-state.ts';
import type { NameSet } from './name-set.ts';
import type { VersionMap } from './requests.ts';

type Overlay = ReadonlyMap<string, KnownResource | undefined>;

export const NO_DIFFERENCES: Overlay = new Map();

/** The largest part, and the other parts, which have few resources and are specific to the proxy. */
function byLargest(parts: readonly Bundle[]): { largest: Bundle | undefined; others: readonly Bundle[] } {
  let largest: Bundle | undefined;
  for (const part of parts) if (largest === undefined || part.size > largest.size) largest = part;
  return { largest, others: parts.filter((part) => part !== largest) };
}

interface Comparison {
  /** Resources of the bundle that the proxy has in another version, or not at all. */
  readonly differing: Overlay;
  /** Names that the proxy reports and the bundle does not have. */
  readonly unknown: readonly string[];
}

function compare(bundle: Bundle, versions: VersionMap): Comparison {
  const differing = new Map<string, KnownResource | undefined>();
  let shared = 0;
  for (const { name, version } of bundle.resources()) {
    const known = versions.get(name);
    if (known !== undefined) shared++;
    if (known !== version)
      differing.set(name, known === undefined ? undefined : { version: known, resource: undefined });
  }
  if (shared === versions.size) return { differing, unknown: [] };
  return { differing, unknown: [...versions.keys()].filter((name) => bundle.get(name) === undefined) };
}

/** The resources that a proxy reports under these names, as exceptions from the parts. */
export function reportedResources(names: readonly string[], versions: VersionMap, parts: readonly Bundle[]): Overlay {
  const reported = new Map<string, KnownResource | undefined>();
  for (const name of names) {
    const version = versions.get(name);
    if (version !== undefined) reported.set(name, { version, resource: undefined });
    else if (findResource(parts, name) !== undefined) reported.set(name, undefined);
  }
  return reported;
}

/** The resources that a proxy reports under names that the parts do not have. */
export function resourcesOutside(versions: VersionMap, parts: readonly Bundle[]): ReadonlyMap<string, KnownResource> {
  const found = new Map<string, KnownResource>();
  for (const name of versions.keys()) {
    const version = versions.get(name);
    if (version !== undefined && findResource(parts, name) === undefined)
      found.set(name, { version, resource: undefined });
  }
  return found;
}

/** Compares what the reconnecting proxies of one server report with the parts that they should have. */
export class Comparisons {
  readonly #ofAll: WeakPairMemo<Bundle, VersionMap, Comparison>;
  /** By the versions, then by the bundle and the names. */
  readonly #ofNames: WeakMemo<VersionMap, WeakPairMemo<Bundle, NameSet, readonly string[]>>;
  readonly #newOfNames: () => WeakPairMemo<Bundle, NameSet, readonly string[]>;

  constructor(memos: Memos) {
    this.#ofAll = memos.pairs('shown versions');
    this.#ofNames = memos.weak('shown versions of names');
    this.#newOfNames = () => new WeakPairMemo(memos.enabled);
  }

  /** How the resources of a proxy with a wildcard subscription differ from the parts. */
  differences(versions: VersionMap, parts: readonly Bundle[]): Overlay {
    const { largest, others } = byLargest(parts);
    if (largest === undefined) return NO_DIFFERENCES;
    const { differing, unknown } = this.#ofAll.get(largest, versions, () => compare(largest, versions));
    const overlay = new Map(differing);
    for (const bundle of others)
      for (const { name, version } of bundle.resources()) {
        const known = versions.get(name);
        if (known !== version)
          overlay.set(name, known === undefined ? undefined : { version: known, resource: undefined });
      }
    for (const name of unknown) {
      const version = versions.get(name);
      if (version !== undefined && findResource(others, name) === undefined)
        overlay.set(name, { version, resource: undefined });
    }
    return overlay;
  }

  /** Number of names that a proxy reports and that the parts do not have. */
  unknown(versions: VersionMap, parts: readonly Bundle[]): number {
    const { largest, others } = byLargest(parts);
    if (largest === undefined || versions.size === 0) return versions.size;
    const { unknown } = this.#ofAll.get(largest, versions, () => compare(largest, versions));
    return unknown.reduce((sum, name) => sum + (findResource(others, name) === undefined ? 1 : 0), 0);
  }

  /** Names that a proxy subscribes to and has not in the parts' version. */
  outdated(names: NameSet, versions: VersionMap, parts: readonly Bundle[]): readonly string[] {
    const { largest, others } = byLargest(parts);
    if (names.size === 0) return [];
    if (largest === undefined) return [...names.names];
    const matches = (bundles: readonly Bundle[], name: string): boolean => {
      const current = findResource(bundles, name);
      return current !== undefined && versions.get(name) === current.version;
    };
    const left = this.#ofNames
      .get(versions, this.#newOfNames)
      .get(largest, names, () => [...names.names].filter((name) => !matches([largest], name)));
    return left.filter((name) => !matches(others, name));
  }
}
