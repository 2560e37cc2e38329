/**
 * Keeps one object for equal content: views that generate the same bytes for a name share them, and so do the bundles
 * before and after a change. Entries are weak references, so objects that neither a bundle nor a stream uses are freed
 * without reference counts.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { EncodedResource } from '../types.ts';
import { encodeResource } from './encode-resource.ts';

export class Interner {
  readonly #entries = new Map<string, WeakRef<EncodedResource>>();
  readonly #freed = new FinalizationRegistry<string>((key) => {
    // A newer resource may have the key by now.
    if (this.#entries.get(key)?.deref() === undefined) this.#entries.delete(key);
  });

  /** Entries, including those whose resource was freed a moment ago. */
  get size(): number {
    return this.#entries.size;
  }

  /** The object for this content. `message` is called only when the content is new. */
  intern(
    type: XdsType,
    name: string,
    version: string,
    refs: readonly string[],
    message: () => Uint8Array,
  ): EncodedResource {
    const key = `${type}\n${name}\n${version}`;
    const known = this.#entries.get(key)?.deref();
    if (known !== undefined) return known;
    const made = encodeResource(type, name, version, message(), refs);
    this.#entries.set(key, new WeakRef(made));
    this.#freed.register(made, key);
    return made;
  }
}
