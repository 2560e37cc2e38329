/** Last good versions over restarts, in memory. */
import type { AnyResource, ResourceKey } from '../../resources/kinds/types.ts';
import { keyOf } from '../../resources/kinds/types.ts';
import type { LastGood, SourceLastGood } from '../last-good.ts';

export class Memory implements LastGood {
  /** By source, by key. */
  readonly kept = new Map<string, Map<ResourceKey, AnyResource>>();

  get size(): number {
    return [...this.kept.values()].reduce((sum, { size }) => sum + size, 0);
  }

  of(source: string): SourceLastGood {
    const kept = this.kept.get(source) ?? new Map<ResourceKey, AnyResource>();
    this.kept.set(source, kept);
    return {
      save: (resource) => void kept.set(keyOf(resource), resource),
      forget: (key) => void kept.delete(key),
      load: (key) => kept.get(key),
      ofFile: (file) => [...kept.values()].filter(({ origin }) => origin.file === file).map(keyOf),
    };
  }

  retain(keys: ReadonlyMap<string, Iterable<ResourceKey>>): void {
    for (const [source, kept] of this.kept) {
      const retained = new Set(keys.get(source));
      for (const key of kept.keys()) if (!retained.has(key)) kept.delete(key);
    }
  }
}
