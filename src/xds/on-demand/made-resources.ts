/** Virtual hosts and answers that were made for names, the last ones: proxies ask for the same names. */
import type { EncodedResource } from '../../push/index.ts';

/** Memory of what is kept, bytes: 20,000 answers and virtual hosts for hosts that the mesh does not know. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;
/** Of an entry without its strings and its content, bytes. */
const ENTRY_BYTES = 300;

export class MadeResources {
  /** The oldest is dropped first. */
  readonly #kept = new Map<string, EncodedResource>();
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * The resource of a key, made now or before.
   * @param key says everything that the resource is made from
   */
  get(key: string, make: () => EncodedResource): EncodedResource {
    const known = this.#kept.get(key);
    if (known !== undefined) return known;
    const resource = make();
    this.#kept.set(key, resource);
    this.#bytes += bytesOf(key, resource);
    for (const [oldest, each] of this.#kept) {
      if (this.#bytes <= MAX_KEPT_BYTES) break;
      this.#kept.delete(oldest);
      this.#bytes -= bytesOf(oldest, each);
    }
    return resource;
  }
}

function bytesOf(key: string, { name, fragment }: EncodedResource): number {
  return ENTRY_BYTES + key.length + name.length + fragment.length;
}
