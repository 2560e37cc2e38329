/**
 * The memory that the objects of one API server may use. The API server of the program's own cluster is trusted. That
 * of a remote cluster is not: it could send an endless number of objects and exhaust the memory of the control plane
 * for all proxies.
 */
import { CtlError } from '../../core/errors.ts';
import { eventId, type ListedEvent, type ResourceKey } from '../../resources/index.ts';

/** Memory of a value besides its characters, bytes: about as much as V8 uses. */
const VALUE_BYTES = 16;

/** The approximate size of plain data in memory, bytes. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return VALUE_BYTES + value.length;
  if (typeof value !== 'object' || value === null) return VALUE_BYTES;
  let size = VALUE_BYTES;
  for (const [key, field] of Object.entries(value)) size += VALUE_BYTES + key.length + sizeOf(field);
  return size;
}

/** Shared by the collections of one source. */
export class ObjectQuota {
  readonly #maxBytes: number;
  #used = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  account(): QuotaAccount {
    return new QuotaAccount((bytes) => this.#change(bytes));
  }

  /**
   * @throws CtlError if the limit is exceeded
   */
  #change(bytes: number): void {
    this.#used += bytes;
    if (bytes <= 0 || this.#used <= this.#maxBytes) return;
    const limit = Math.floor(this.#maxBytes / (1024 * 1024));
    throw new CtlError('resource_exhausted', `expected at most ${limit} MiB of objects in this cluster`);
  }
}

/** The memory of one collection. While the collection is listed again, the larger of the two lists counts. */
export class QuotaAccount {
  readonly #change: (bytes: number) => void;
  /** Sizes of the objects that were reported. */
  #reported = new Map<ResourceKey, number>();
  #reportedBytes = 0;
  /** Sizes of the objects that were received since the last report. */
  #received = new Map<ListedEvent, number>();
  #receivedBytes = 0;
  #isListing = false;
  #counted = 0;

  constructor(change: (bytes: number) => void) {
    this.#change = change;
  }

  /** A list or a watch begins: what was received before it and not reported is discarded. */
  begin(isList: boolean): void {
    this.#isListing = isList;
    this.#forget();
  }

  /**
   * @throws CtlError if the object exceeds the quota
   */
  receive(object: ListedEvent): void {
    const size = sizeOf(object);
    this.#received.set(object, size);
    this.#receivedBytes += size;
    this.#count();
  }

  list(objects: readonly ListedEvent[]): void {
    this.#reported = new Map();
    this.#reportedBytes = 0;
    for (const object of objects) this.#set(object);
    this.#isListing = false;
    this.#forget();
  }

  set(object: ListedEvent): void {
    this.#set(object);
    this.#receivedBytes -= this.#received.get(object) ?? 0;
    this.#received.delete(object);
    this.#count();
  }

  delete(key: ResourceKey): void {
    this.#remove(key);
    this.#count();
  }

  #set(object: ListedEvent): void {
    const size = this.#received.get(object) ?? 0;
    const key = eventId(object);
    this.#remove(key);
    this.#reported.set(key, size);
    this.#reportedBytes += size;
  }

  #remove(key: ResourceKey): void {
    this.#reportedBytes -= this.#reported.get(key) ?? 0;
    this.#reported.delete(key);
  }

  #forget(): void {
    this.#received = new Map();
    this.#receivedBytes = 0;
    this.#count();
  }

  #count(): void {
    const counted = this.#isListing
      ? Math.max(this.#reportedBytes, this.#receivedBytes)
      : this.#reportedBytes + this.#receivedBytes;
    const change = counted - this.#counted;
    this.#counted = counted;
    this.#change(change);
  }
}
