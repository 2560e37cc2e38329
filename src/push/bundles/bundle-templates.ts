/**
 * Where the bundles of a view begin. Views of different namespaces hold nearly the same, so the first bundle of a view
 * is made of the first bundle of the view before it: what both have is shared, and units that are the same objects are
 * not even looked at.
 */
import type { Unit } from '../../generate/types.ts';
import type { Bundle, EncodedResource } from '../types.ts';
import { bundleAfter, nextBundle } from './bundle.ts';

/** Resources by the unit that they belong to; undefined or none: there is no such unit. */
export type UnitContents = ReadonlyMap<Unit, readonly EncodedResource[] | undefined>;

interface Template {
  readonly bundle: Bundle;
  readonly units: UnitContents;
}

/** Kinds of bundles of which the last one is remembered; the one that was asked for longest ago goes first. */
const MAX_KINDS = 64;

export class BundleTemplates {
  /** The last first bundle of each kind and type. */
  readonly #last = new Map<string, Template>();

  /**
   * A view's first bundle: what the units hold and nothing else; `empty` itself where they hold nothing. The units may
   * not change any more.
   * @param kind names those that hold nearly the same: a part, and a placement where it depends on that
   */
  begin(kind: string, empty: Bundle, units: UnitContents): Bundle {
    let size = 0;
    for (const resources of units.values()) size += resources?.length ?? 0;
    if (size === 0) return empty;
    const key = `${empty.type} ${kind}`;
    const template = this.#last.get(key);
    let bundle = template && bundleAfter(empty, template.bundle, differences(template.units, units));
    // Were a name in two units, what differs would not say which of them counts.
    if (bundle?.size !== size) bundle = nextBundle(empty, differences(new Map(), units));
    this.#last.delete(key);
    this.#last.set(key, { bundle, units });
    const [oldest] = this.#last.keys();
    if (oldest !== undefined && this.#last.size > MAX_KINDS) this.#last.delete(oldest);
    return bundle;
  }
}

/** Removals first: a name may stand in another unit. */
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
