/**
 * Equal content, one object: views that generate the same bytes for a name share them, and so do the bundles before and
 * after a change. Entries are held weakly, so that what no bundle and no stream holds any more is freed without
 * reference counts.
 */
import type { XdsType } from '../../generate/types.ts';
import type { EncodedResource } from '../types.ts';
import { encodeResource } from './encode-resource.ts';

export class Interner {
  readonly #entries = new Map<string, WeakRef<EncodedResource>>();
  readonly #freed = new FinalizationRegistry<string>((key) => {
    // The key may have been taken again since; then the live entry stays.
    if (this.#entries.get(key)?.deref() === undefined) this.#entries.delete(key);
  });

  /** Resources held now (those freed but not yet swept included). */
  get size(): number {
    return this.#entries.size;
  }

  /** The one object for this content. `message` is read only when the content is new. */
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
