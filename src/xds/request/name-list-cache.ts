/**
 * Recognizes long lists in requests: thousands of proxies name the same thousands of resources, and each ACK of the
 * state of the world variant names all of them again. A list that was read before is found by comparing bytes, or entry
 * by entry, because each Envoy iterates over a hash map and sends its names in a different order. Only a new list is
 * decoded. Without it, 1,000 proxies that reconnect with 1,000 services cost 2.4 s of CPU time instead of 0.9 s, and 60
 * MiB more.
 *
 * Known lists are held weakly: they last as long as a stream uses them. Comparisons are exact, so that no proxy can
 * have its list confused with another's.
 */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import { Entries, EntryTable } from './entry-table.ts';
import { type ListForm, NameListBuilder } from './name-list-builder.ts';

/**
 * Maximum number of known lists with the same size or head; further ones are decoded each time. This limits the cost
 * that a client can cause for requests of others.
 */
const MAX_ALIKE = 16;

/**
 * Lists are looked up by this many bytes of their beginning, which is more than a name usually has; shorter lists by
 * all of their bytes.
 */
export const HEAD_BYTES = 96;

/** Known lists of one kind. A `head` is the first {@link HEAD_BYTES} bytes of a list as latin1. */
export interface FormIndex {
  /** Forms with this head, longest first. */
  beginningWith(head: string): ListForm[];
  /** The list with this head that is being learned; a new list if there is none. */
  builderFor(head: string): NameListBuilder;
}

/** One encoding of a known list. */
class Form<V extends Sized> implements ListForm {
  readonly bytes: Buffer;
  readonly known: CachedList<V>;
  /** The cache that it belongs to. */
  readonly lists: NameListCache<V>;

  constructor(bytes: Buffer, known: CachedList<V>, lists: NameListCache<V>) {
    this.bytes = bytes;
    this.known = known;
    this.lists = lists;
  }
}

/**
 * A shorter list of names is learned when it is read for the second time: that few names are decoded quickly, and
 * thousands of proxies on demand may each name others.
 */
const SHORT_BYTES = 4096;

interface Sized {
  readonly size: number;
}

interface CachedList<V extends Sized> {
  readonly value: V;
  /** Number of entries of the encoded forms. */
  readonly count: number;
  /** The first encoding, and the last encoding with another order. */
  first: Form<V> | undefined;
  latest: Form<V> | undefined;
  /** Entries of the first form; made when another order is met. */
  table: EntryTable | undefined;
}

/** A map from a key to a few weakly held objects, without those that were collected. */
class WeakBuckets<T extends object> {
  readonly #buckets = new Map<string, WeakRef<T>[]>();
  readonly #freed = new FinalizationRegistry<string>((key) => {
    const left = this.#buckets.get(key)?.filter((each) => each.deref() !== undefined) ?? [];
    if (left.length > 0) this.#buckets.set(key, left);
    else this.#buckets.delete(key);
  });

  find(key: string, wanted: (object: T) => boolean): T | undefined {
    for (const each of this.#buckets.get(key) ?? []) {
      const object = each.deref();
      if (object !== undefined && wanted(object)) return object;
    }
    return undefined;
  }

  all(key: string): T[] {
    return (this.#buckets.get(key) ?? []).flatMap((each) => each.deref() ?? []);
  }

  add(key: string, object: T): void {
    const bucket = this.#buckets.get(key) ?? [];
    if (bucket.length >= MAX_ALIKE) return;
    bucket.push(new WeakRef(object));
    this.#buckets.set(key, bucket);
    this.#freed.register(object, key);
  }
}

function sameEntries<V extends Sized>(known: CachedList<V>, entries: Entries): boolean {
  if (known.first === undefined) return false;
  known.table ??= new EntryTable(new Entries(known.first.bytes, known.count));
  return known.table.sameAs(entries);
}

/** The known lists of one kind of one server. */
export class NameListCache<V extends Sized> implements FormIndex {
  /** By number of entries, number of bytes and sum of hashes: the same for any order of the same entries. */
  readonly #bySum = new WeakBuckets<CachedList<V>>();
  readonly #byHead = new WeakBuckets<Form<V>>();
  /** Holds a known list as long as its value. */
  readonly #of: WeakMemo<V, CachedList<V>>;
  readonly #builders = new WeakBuckets<NameListBuilder>();
  /** Values of short lists that were read once; undefined where equal lists are decoded to different objects. */
  readonly #once: WeakSet<V> | undefined;
  readonly #make: (entries: Buffer) => V;
  readonly #maxEntries: number;
  readonly #enabled: boolean;

  /**
   * @param make decodes well-formed entries; may throw
   * @param options.interned `make` returns one object for equal lists
   * @param options.maxEntries longer lists are not learned while they arrive
   * @param options.name name of the memo in `memos`; when these are switched off, no list is known
   */
  constructor(
    make: (entries: Buffer) => V,
    { interned, maxEntries, name }: { readonly interned: boolean; readonly maxEntries: number; readonly name: string },
    memos: Memos,
  ) {
    this.#make = make;
    this.#once = interned ? new WeakSet() : undefined;
    this.#maxEntries = maxEntries;
    this.#of = memos.weak(name);
    this.#enabled = memos.enabled;
  }

  beginningWith(head: string): ListForm[] {
    return this.#byHead.all(head).sort((a, b) => b.bytes.length - a.bytes.length);
  }

  builderFor(head: string): NameListBuilder {
    const known = this.#builders.find(head, (list) => list.open);
    if (known !== undefined) return known;
    const list = new NameListBuilder((entries, count) =>
      count > this.#maxEntries ? undefined : this.#learn(entries, count, true).form,
    );
    this.#builders.add(head, list);
    return list;
  }

  /** The decoded list of a form; undefined when it belongs to another cache. */
  valueOf(form: ListForm): { readonly value: V; readonly count: number } | undefined {
    return form instanceof Form && form.lists === this ? form.known : undefined;
  }

  /** The list that `bytes` encode: `count` well-formed entries. Throws what `make` throws. */
  recognize(bytes: Buffer, count: number): V {
    return this.#enabled ? this.#learn(bytes, count, false).value : this.#make(bytes);
  }

  /**
   * @param lasting the bytes do not change and may be referred to
   * @returns without a form when the list cannot be recognized by its bytes
   */
  #learn(bytes: Buffer, count: number, lasting: boolean): { readonly value: V; readonly form?: ListForm } {
    const same = this.#byHead.find(headAt(bytes, 0), (form) => form.bytes.equals(bytes));
    if (same !== undefined) return { value: same.known.value, form: same };
    const entries = new Entries(bytes, count);
    const key = `${count}/${bytes.length}/${entries.sum}`;
    const known = this.#bySum.find(key, (candidate) => sameEntries(candidate, entries));
    if (known !== undefined) {
      const form = this.#form(known, lasting ? bytes : copyOf(bytes));
      known.latest = form;
      return { value: known.value, form };
    }
    const value = this.#make(bytes);
    if (!lasting && bytes.length < SHORT_BYTES && this.#isNew(value)) return { value };
    const learned: CachedList<V> = { value, count, first: undefined, latest: undefined, table: undefined };
    // With a repeated entry the order may matter. A value is known by the entries that it was first decoded from.
    if (value.size !== count || this.#of.get(value, () => learned) !== learned) return { value };
    // A copy, because it may be kept for long, and the message that contains it is much larger or a part of a read of
    // the socket.
    const form = this.#form(learned, copyOf(bytes));
    learned.first = form;
    this.#bySum.add(key, learned);
    return { value, form };
  }

  /** Whether no list was read before that has this value, as far as that can be told. */
  #isNew(value: V): boolean {
    if (this.#once === undefined || this.#once.has(value)) return false;
    this.#once.add(value);
    return true;
  }

  #form(known: CachedList<V>, bytes: Buffer): Form<V> {
    const form = new Form(bytes, known, this);
    this.#byHead.add(headAt(bytes, 0), form);
    return form;
  }
}

/** A copy with memory of its own, not of Node's pool, of which it would keep 64 KiB. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

/** The key by which lists are looked up: the head, or all of a shorter list. */
export function headAt(bytes: Buffer, offset: number): string {
  return bytes.toString('latin1', offset, offset + HEAD_BYTES);
}
