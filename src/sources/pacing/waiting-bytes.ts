/**
 * The memory of objects that wait to be read, by namespace. They wait as they were received, not validated. If a
 * namespace exceeds its limit, its objects are read at once instead.
 */

/** Limit for the waiting objects of a namespace, bytes: several of the largest objects that an API server stores. */
export const NAMESPACE_BYTES = 8 * 1024 * 1024;
/**
 * Limit for all namespaces, bytes. When it is exceeded, every namespace whose objects arrive counts as over its limit.
 */
export const TOTAL_BYTES = 64 * 1024 * 1024;

interface Counted {
  readonly namespace: string;
  readonly bytes: number;
}

export class WaitingBytes {
  readonly #objects = new Map<string, Counted>();
  readonly #namespaces = new Map<string, number>();
  #total = 0;

  set(id: string, namespace: string, bytes: number): void {
    this.delete(id);
    this.#objects.set(id, { namespace, bytes });
    this.#add(namespace, bytes);
  }

  delete(id: string): void {
    const counted = this.#objects.get(id);
    if (counted === undefined) return;
    this.#objects.delete(id);
    this.#add(counted.namespace, -counted.bytes);
  }

  /** Whether objects of the namespace have to be read, so that fewer wait. */
  isOver(namespace: string): boolean {
    const bytes = this.#namespaces.get(namespace) ?? 0;
    return bytes > NAMESPACE_BYTES || (bytes > 0 && this.#total > TOTAL_BYTES);
  }

  #add(namespace: string, bytes: number): void {
    this.#total += bytes;
    const sum = (this.#namespaces.get(namespace) ?? 0) + bytes;
    if (sum > 0) this.#namespaces.set(namespace, sum);
    else this.#namespaces.delete(namespace);
  }
}
