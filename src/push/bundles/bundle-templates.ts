/**
 * Builds the first bundles of views from those of similar views. Views of different namespaces have nearly the same
 * content, so a first bundle starts from the one built before it: the two share memory, and units that are the same
 * objects cost nothing.
 */
import type { Unit } from '../../generate/index.ts';
import type { Bundle, EncodedResource } from '../types.ts';
import { bundleAfter, nextBundle } from './bundle.ts';

/** Resources by unit; undefined and empty both mean that there is no such unit. */
export type UnitContents = ReadonlyMap<Unit, readonly EncodedResource[] | undefined>;

interface Template {
  readonly bundle: Bundle;
  readonly units: UnitContents;
}

/** Templates kept; the least recently used is evicted first. */
const MAX_KINDS = 64;

export class BundleTemplates {
  /** The most recent first bundle of each kind and type. */
  readonly #last = new Map<string, Template>();

  /**
   * A view's first bundle, with exactly the resources of these units; `empty` itself when there are none. The units
   * must not change afterwards. @param kind names bundles with nearly the same content: the part, and the placement if
   * the content depends on it
   */
  begin(kind: string, empty: Bundle, units: UnitContents): Bundle {
    let size = 0;
    for (const resources of units.values()) size += resources?.length ?? 0;
    if (size === 0) return empty;
    const key = `${empty.type} ${kind}`;
    const template = this.#last.get(key);
    let bundle = template && bundleAfter(empty, template.bundle, differences(template.units, units));
    // If two units have the same name, the difference from the template does not show which of them is used.
    if (bundle?.size !== size) bundle = nextBundle(empty, differences(new Map(), units));
    this.#last.delete(key);
    this.#last.set(key, { bundle, units });
    const [oldest] = this.#last.keys();
    if (oldest !== undefined && this.#last.size > MAX_KINDS) this.#last.delete(oldest);
    return bundle;
  }
}

/** Removals first: the name may be in another unit now. */
function differences(before: UnitContents, after: UnitContents): Map<string, EncodedResource | undefined> {
  const changes = new Map<string, EncodedResource | undefined>();
  for (const [unit, resources] of before) {
    if (resources === undefined || resources === after.get(unit)) continue;
    for (const { name } of resources) changes.set(name, undefined);
  }
  for (const [unit, resources] of after) {
    if (resources === undefined || resources === before.get(unit)) continue;
    for (const resource of resources) changes.set(resource.name, resource);
  }
  return changes;
}
