/**
 * What a proxy that comes back with `initial_resource_versions` lacks. Nearly always nothing, for thousands of proxies at once with
 * the same thousands of versions: the comparison with the largest part, which they share, is made once for all of them.
 */
import type { Bundle } from '../push/types.ts';
import { findIn, type Held } from './have.ts';
import type { NameSet } from './name-set.ts';
import type { VersionMap } from './request-lists.ts';
import { cached, type WeakCache } from './weak-cache.ts';

type Overlay = ReadonlyMap<string, Held | undefined>;

export const NO_DEVIATIONS: Overlay = new Map();

/** The largest part and the others, which are few resources of the proxy's own. */
function byLargest(parts: readonly Bundle[]): { largest: Bundle | undefined; others: readonly Bundle[] } {
  let largest: Bundle | undefined;
  for (const part of parts) if (largest === undefined || part.size > largest.size) largest = part;
  return { largest, others: parts.filter((part) => part !== largest) };
}

interface Comparison {
  /** Resources of the bundle that the proxy has in another version or not at all. */
  readonly differing: Overlay;
  /** Names of the proxy that the bundle does not have. */
  readonly foreign: readonly string[];
}

function compare(bundle: Bundle, versions: VersionMap): Comparison {
  const differing = new Map<string, Held | undefined>();
  let shared = 0;
  for (const { name, version } of bundle.resources()) {
    const known = versions.get(name);
    if (known !== undefined) shared++;
    if (known !== version)
      differing.set(name, known === undefined ? undefined : { version: known, resource: undefined });
  }
  if (shared === versions.size) return { differing, foreign: [] };
  return { differing, foreign: [...versions.keys()].filter((name) => bundle.get(name) === undefined) };
}

const comparisons: WeakCache<Comparison> = new WeakMap();

/** How what a wildcard proxy has differs from the parts. */
export function deviations(versions: VersionMap, parts: readonly Bundle[]): Overlay {
  const { largest, others } = byLargest(parts);
  if (largest === undefined) return NO_DEVIATIONS;
  const { differing, foreign } = cached(comparisons, largest, versions, () => compare(largest, versions));
  const overlay = new Map(differing);
  for (const bundle of others)
    for (const { name, version } of bundle.resources()) {
      const known = versions.get(name);
      if (known !== version)
        overlay.set(name, known === undefined ? undefined : { version: known, resource: undefined });
    }
  for (const name of foreign) {
    const version = versions.get(name);
    if (version !== undefined && findIn(others, name) === undefined)
      overlay.set(name, { version, resource: undefined });
  }
  return overlay;
}

/** What a proxy showed of these names. */
export function shown(names: readonly string[], versions: VersionMap): Overlay {
  return new Map(
    names.map((name) => {
      const version = versions.get(name);
      return [name, version === undefined ? undefined : { version, resource: undefined }];
    }),
  );
}

/** What a proxy has under names that the parts do not have. */
export function foreign(versions: VersionMap, parts: readonly Bundle[]): ReadonlyMap<string, Held> {
  const found = new Map<string, Held>();
  for (const name of versions.keys()) {
    const version = versions.get(name);
    if (version !== undefined && findIn(parts, name) === undefined) found.set(name, { version, resource: undefined });
  }
  return found;
}

const unmatched = new WeakMap<VersionMap, WeakCache<readonly string[]>>();

/** Names that a proxy asks for of which it does not have the parts' version. */
export function outdated(names: NameSet, versions: VersionMap, parts: readonly Bundle[]): readonly string[] {
  const { largest, others } = byLargest(parts);
  if (names.size === 0) return [];
  if (largest === undefined) return [...names.names];
  const cache = unmatched.get(versions) ?? new WeakMap();
  unmatched.set(versions, cache);
  const matches = (bundles: readonly Bundle[], name: string): boolean => {
    const current = findIn(bundles, name);
    return current !== undefined && versions.get(name) === current.version;
  };
  const left = cached(cache, largest, names, () => [...names.names].filter((name) => !matches([largest], name)));
  return left.filter((name) => !matches(others, name));
}
