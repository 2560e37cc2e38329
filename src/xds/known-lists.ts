/**
 * Recognises long lists in requests: thousands of proxies name the same thousands of resources, and an ACK of the
 * state-of-the-world protocol names them all again. A list that was seen before is found by comparing bytes, or, because Envoys
 * walk hash maps and each has an order of its own, entry by entry against what is known; only a new one is built.
 *
 * What is known is held weakly: as long as a stream uses it, or until memory is collected. Comparisons are exact, so that no
 * proxy can make another's list be taken for its own.
 */
import { EntryTable } from './entry-table.ts';
import { GrowingList } from './growing-list.ts';

/** Lists of one size or beginning that are told apart; any more are read each time. Ends what somebody could make others' requests cost. */
const MAX_ALIKE = 16;

/** Lists are looked up by this many bytes of their beginning: more than one name of a mesh has. Shorter ones are read each time. */
export const HEAD_BYTES = 96;

/** A list, in one of the ways to write it: whole encoded fields, of which the first begins the bytes. */
export interface ListForm {
  readonly bytes: Buffer;
}

interface Form<V> extends ListForm {
  readonly known: Known<V>;
}

/** Known lists, without their kind. A `head` is their first {@link HEAD_BYTES} bytes as latin1. */
export interface FormIndex {
  /** Forms that begin with `head`; longest first. */
  beginningWith(head: string): ListForm[];
  /** The list that is being learned from what begins with `head`; a new one where there is none. */
  growing(head: string): GrowingList;
}

interface Known<V> {
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

function sameEntries<V>(known: Known<V>, bytes: Buffer): boolean {
  if (known.first === undefined) return false;
  known.table ??= new EntryTable(known.first.bytes, known.count);
  return known.table.sameAs(bytes);
}

export class KnownLists<V extends { readonly size: number }> implements FormIndex {
  /** By number of entries and of bytes: the same for any order of the same entries. */
  readonly #bySize = new WeakBuckets<Known<V>>();
  readonly #byHead = new WeakBuckets<Form<V>>();
  readonly #of = new WeakMap<V, Known<V>>();
  readonly #byForm = new WeakMap<ListForm, Known<V>>();
  readonly #growing = new WeakBuckets<GrowingList>();
  readonly #make: (entries: Buffer) => V;

  /** `make` decodes well-formed entries, and may throw. */
  constructor(make: (entries: Buffer) => V) {
    this.#make = make;
  }

  /** The known list that the message has from `offset` on, its entries and its bytes; it may go on with more entries behind it. */
  at(
    message: Buffer,
    offset: number,
  ): { readonly value: V; readonly count: number; readonly length: number } | undefined {
    if (offset + HEAD_BYTES > message.length) return undefined;
    const form = this.#byHead.find(headAt(message, offset), ({ bytes }) => {
      const end = offset + bytes.length;
      return end <= message.length && message.compare(bytes, 0, bytes.length, offset, end) === 0;
    });
    return form === undefined
      ? undefined
      : { value: form.known.value, count: form.known.count, length: form.bytes.length };
  }

  beginningWith(head: string): ListForm[] {
    return this.#byHead.all(head).sort((a, b) => b.bytes.length - a.bytes.length);
  }

  growing(head: string): GrowingList {
    const known = this.#growing.find(head, (list) => list.open);
    if (known !== undefined) return known;
    const list = new GrowingList((entries, count) => this.#learn(entries, count).form);
    this.#growing.add(head, list);
    return list;
  }

  /** What a form says; undefined when it is of another kind of lists. */
  meaningOf(form: ListForm): { readonly value: V; readonly count: number } | undefined {
    return this.#byForm.get(form);
  }

  /** The list that `bytes` (`count` well-formed encoded entries) mean. Throws what `make` throws. */
  recognise(bytes: Buffer, count: number): V {
    return this.#learn(bytes, count).value;
  }

  /** The form is left out when the list cannot be known by its bytes. */
  #learn(bytes: Buffer, count: number): { readonly value: V; readonly form?: ListForm } {
    const size = `${count}/${bytes.length}`;
    const known = this.#bySize.find(size, (candidate) => sameEntries(candidate, bytes));
    if (known !== undefined) {
      const form = this.#form(known, bytes);
      known.latest = form;
      return { value: known.value, form };
    }
    const value = this.#make(bytes);
    // With an entry that comes twice, the order might count.
    if (value.size !== count || this.#of.has(value)) return { value };
    const learned: Known<V> = { value, count, first: undefined, latest: undefined, table: undefined };
    const form = this.#form(learned, bytes);
    learned.first = form;
    this.#of.set(value, learned);
    this.#bySize.add(size, learned);
    return { value, form };
  }

  #form(known: Known<V>, bytes: Buffer): Form<V> {
    // A copy of its own: the message that it came in is much larger, or a part of what the socket read.
    const form: Form<V> = { bytes: Buffer.from(bytes), known };
    this.#byForm.set(form, known);
    if (bytes.length >= HEAD_BYTES) this.#byHead.add(headAt(bytes, 0), form);
    return form;
  }
}

/** The key that lists are looked up by. */
export function headAt(bytes: Buffer, offset: number): string {
  return bytes.toString('latin1', offset, offset + HEAD_BYTES);
}
