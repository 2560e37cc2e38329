/** The patches for the resources of one type of a view, by target, with an index of each target that is read. */
import { PatchIndex, type PatchKeys } from './patch-index.ts';
import type { ApplyTo, Patch } from './types.ts';

export class Patches {
  readonly #byTarget: ReadonlyMap<ApplyTo, readonly Patch[]>;
  readonly #indexed: boolean;
  readonly #indexes = new Map<ApplyTo, unknown>();

  /**
   * @param patches in the order in which they apply
   * @param indexed false: every patch is compared with every item. That changes no result, only the speed.
   */
  constructor(patches: readonly Patch[], indexed: boolean) {
    this.#byTarget = Map.groupBy(patches, ({ applyTo }) => applyTo);
    this.#indexed = indexed;
  }

  /** The patches of a target, in the order in which they apply. */
  of(applyTo: ApplyTo): readonly Patch[] {
    return this.#byTarget.get(applyTo) ?? [];
  }

  /** The same as an index, which is made once. One target has the same keys each time. */
  indexOf<T>(applyTo: ApplyTo, keys: PatchKeys<T>): PatchIndex<T> {
    const known = this.#indexes.get(applyTo);
    if (known !== undefined) return known as PatchIndex<T>;
    const made = this.index(this.of(applyTo), keys);
    this.#indexes.set(applyTo, made);
    return made;
  }

  index<T>(patches: readonly Patch[], keys: PatchKeys<T>): PatchIndex<T> {
    return new PatchIndex(patches, this.#indexed ? keys : undefined);
  }
}
