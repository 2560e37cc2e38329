/** What of a store is in force, known from its changes alone, as snapshots know it. */
import assert from 'node:assert/strict';
import type { AnyResource, ResourceKey } from '../../resources/kinds/types.ts';
import type { Store } from '../types.ts';

export class Follower {
  readonly #store: Store;
  readonly #inForce = new Map<ResourceKey, AnyResource>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Takes what is pending; by key. */
  inForce(): ReadonlyMap<ResourceKey, AnyResource> {
    for (const { key, before, after } of this.#store.take().changes) {
      assert.equal(this.#inForce.get(key)?.fingerprint, before?.fingerprint, key);
      assert.notEqual(before?.fingerprint, after?.fingerprint, key);
      if (after === undefined) this.#inForce.delete(key);
      else this.#inForce.set(key, after);
    }
    for (const [key, { fingerprint }] of this.#inForce)
      assert.equal(this.#store.get(key)?.fingerprint, fingerprint, key);
    return this.#inForce;
  }
}
