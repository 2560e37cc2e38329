/**
 * Recognises long lists in requests: thousands of proxies name the same thousands of resources, and an ACK of the
 * state-of-the-world protocol names them all again. A list that was seen before is found by comparing bytes, or,
 * because Envoys walk hash maps and each has an order of its own, entry by entry against what is known; only a new one
 * is built.
 *
 * What is known is held weakly: as long as a stream uses it, or until memory is collected. Comparisons are exact, so
 * that no proxy can make another's list be taken for its own.
 */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import { Entries, EntryTable } from './entry-table.ts';
import { type ListForm, NameListBuilder } from './name-list-builder.ts';

/**
 * Lists of one size or beginning that are told apart; any more are read each time. Ends what somebody could make
 * others' requests cost.
 */
const MAX_ALIKE = 16;

/**
 * Lists are looked up by this many bytes of their beginning, more than one name of a mesh has; shorter ones when all of
 * them is there.
 */
export const HEAD_BYTES = 96;

/** Known lists, without their kind. A `head` is their first {@link HEAD_BYTES} bytes as latin1. */
export interface FormIndex {
  /** Forms that begin with `head`; longest first. */
  beginningWith(head: string): ListForm[];
  /** The list that is being learned from what begins with `head`; a new one where there is none. */
  growing(head: string): NameListBuilder;
}

/** A form of a known list. */
class Form<V extends Sized> implements ListForm {
  readonly bytes: Buffer;
  readonly known: Known<V>;
  /** Those that it is known to: of one kind. */
  readonly lists: NameListCache<V>;

  constructor(bytes: Buffer, known: Known<V>, lists: NameListCache<V>) {
    this.bytes = bytes;
    this.known = known;
    this.lists = lists;
  }
}

interface Sized {
  readonly size: number;
}

interface Known<V extends Sized> {
  readonly value: V;
  /** Entries that the encoded forms have. */
  readonly count: number;
  /** As it was first seen, and as it was last seen otherwise. */
  first: Form<V> | undefined;
  latest: Form<V> | undefined;
  /** Entries of the first form; made when another order comes. */
  table: EntryTable | undefined;
}

/** A map to few weakly held objects per key, rid of what is gone. */
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

function sameEntries<V extends Sized>(known: Known<V>, entries: Entries): boolean {
  if (known.first === undefined) return false;
  known.table ??= new EntryTable(new Entries(known.first.bytes, known.count));
  return known.table.sameAs(entries);
}

/** Lists of one kind that a server knows. */
export class NameListCache<V extends Sized> implements FormIndex {
  /** By number of entries and of bytes and the sum of hashes: the same for any order of the same entries. */
  readonly #bySum = new WeakBuckets<Known<V>>();
  readonly #byHead = new WeakBuckets<Form<V>>();
  /** What is known of a value lasts as long as this. */
  readonly #of: WeakMemo<V, Known<V>>;
  readonly #growing = new WeakBuckets<NameListBuilder>();
  readonly #make: (entries: Buffer) => V;
  readonly #maxEntries: number;
  readonly #enabled: boolean;

  /**
   * `make` decodes well-formed entries, and may throw. `maxEntries`: nothing is learned from more while it arrives.
   * `name`: of the memo in `memos`; when these are switched off, nothing is known.
   */
  constructor(make: (entries: Buffer) => V, maxEntries: number, name: string, memos: Memos) {
    this.#make = make;
    this.#maxEntries = maxEntries;
    this.#of = memos.weak(name);
    this.#enabled = memos.enabled;
  }

  beginningWith(head: string): ListForm[] {
    return this.#byHead.all(head).sort((a, b) => b.bytes.length - a.bytes.length);
  }

  growing(head: string): NameListBuilder {
    const known = this.#growing.find(head, (list) => list.open);
    if (known !== undefined) return known;
    const list = new NameListBuilder((entries, count) =>
      count > this.#maxEntries ? undefined : this.#learn(entries, count, true).form,
    );
    this.#growing.add(head, list);
    return list;
  }

  /** What a form says; undefined when it is of another kind of lists. */
  meaningOf(form: ListForm): { readonly value: V; readonly count: number } | undefined {
    return form instanceof Form && form.lists === this ? form.known : undefined;
  }

  /** The list that `bytes` (`count` well-formed encoded entries) mean. Throws what `make` throws. */
  recognise(bytes: Buffer, count: number): V {
    return this.#enabled ? this.#learn(bytes, count, false).value : this.#make(bytes);
  }

  /**
   * `lasting`: the bytes do not change and may be held. The form is left out when the list cannot be known by its
   * bytes.
   */
  #learn(bytes: Buffer, count: number, lasting: boolean): { readonly value: V; readonly form?: ListForm } {
    const same = this.#byHead.find(headAt(bytes, 0), (form) => form.bytes.equals(bytes));
    if (same !== undefined) return { value: same.known.value, form: same };
    const entries = new Entries(bytes, count);
    const key = `${count}/${bytes.length}/${entries.sum}`;
    const known = this.#bySum.find(key, (candidate) => sameEntries(candidate, entries));
    if (known !== undefined) {
      const form = this.#form(known, lasting ? bytes : Buffer.from(bytes));
      known.latest = form;
      return { value: known.value, form };
    }
    const value = this.#make(bytes);
    const learned: Known<V> = { value, count, first: undefined, latest: undefined, table: undefined };
    // With an entry that comes twice, the order might count; and a value is known by the entries that it first came in.
    if (value.size !== count || this.#of.get(value, () => learned) !== learned) return { value };
    // A copy of its own, which it may have for long: the message that it came in is much larger, or a part of what the
    // socket read.
    const form = this.#form(learned, Buffer.from(bytes));
    learned.first = form;
    this.#bySum.add(key, learned);
    return { value, form };
  }

  #form(known: Known<V>, bytes: Buffer): Form<V> {
    const form = new Form(bytes, known, this);
    this.#byHead.add(headAt(bytes, 0), form);
    return form;
  }
}

/** The key that lists are looked up by: the head, or all of a shorter list. */
export function headAt(bytes: Buffer, offset: number): string {
  return bytes.toString('latin1', offset, offset + HEAD_BYTES);
}
