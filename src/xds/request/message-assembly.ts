/**
 * A large request while it arrives. Thousands of proxies send the same lists of thousands of names, 100 kB and more at
 * a time: put together for each of them they would be most of what the server allocates. So what arrives is compared
 * with the lists that are known, piece by piece, and let go; only what is new is kept. What this stream has named
 * before is tried first: an acknowledgement of the state-of-the-world protocol names it all again, and is then a few
 * comparisons of memory.
 *
 * Between lists the fields are gathered in a small buffer, which is a well-formed message by itself: the request
 * without its known lists.
 */
import { FieldScanner, MAX_FIELD_HEAD_BYTES } from '../../protobuf/wire/index.ts';
import type { ListForm, NameListBuilder } from './name-list-builder.ts';
import { type FormIndex, HEAD_BYTES, headAt } from './name-list-cache.ts';

/** Fields of a message that hold lists, by number. */
export type ListFields = ReadonlyMap<number, FormIndex>;

/** A known list in place of its bytes. */
export interface KnownRun {
  /** Where it stood, in the bytes without it. */
  readonly at: number;
  /** Number of its field. */
  readonly field: number;
  readonly form: ListForm;
}

/** A request without its known lists. */
export interface Assembled {
  /** Valid until the next message begins. */
  readonly bytes: Buffer;
  readonly known: readonly KnownRun[];
  /** Bytes that were kept because of it: not those of lists that others have brought. */
  readonly kept: number;
}

/** No list is looked for behind this many bytes of other fields (a Node has 2-20 kB). */
const MAX_SCANNED_BYTES = 64 * 1024;

/** How the buffer grows: room is only taken for what has come, whatever length was announced. */
const GROWTH = 4;

/** What the buffer begins with: an acknowledgement without its list has 100-200 bytes. */
const FIRST_BYTES = 256;

/** A larger buffer does not stay with the stream. */
const KEPT_BYTES = 1024;

/** Lists looked up in one message; Envoys send at most three. Ends what a message of alternating fields could cost. */
const MAX_LOOKUPS = 8;

/** Lists that a stream is known by: those of its types that name what they want, and some are sent by turns. */
const MAX_RECENT = 4;

/** Shorter lists that are not known are gathered. */
const MIN_GROWING_BYTES = 16 * 1024;

const NO_BYTES = Buffer.alloc(0);
const NOTHING_KNOWN: readonly KnownRun[] = [];

const scan = new FieldScanner();

/** Bytes from the given places on that are equal. */
function equalBytes(a: Buffer, aStart: number, b: Buffer, bStart: number, length: number): number {
  let [equal, differs] = [0, length + 1];
  while (differs - equal > 1) {
    const middle = (equal + differs) >>> 1;
    if (a.compare(b, bStart + equal, bStart + middle, aStart + equal, aStart + middle) === 0) equal = middle;
    else differs = middle;
  }
  return equal;
}

/** True when the list at `start` ends within {@link HEAD_BYTES}: nothing is known by so little. */
function isShort(field: number, bytes: Buffer, start: number): boolean {
  const end = start + HEAD_BYTES;
  for (let at = start; at < end && scan.read(bytes, at, end); at = scan.end) if (scan.number !== field) return true;
  return false;
}

/** What has come of a list equals the first `done` bytes of one that is being learned, from this stream or others. */
interface Following {
  readonly field: number;
  readonly list: NameListBuilder;
  done: number;
}

/** What has come of a list equals the first `done` bytes of `form`. */
interface Match {
  readonly field: number;
  form: ListForm;
  done: number;
  /** Others that begin alike, longest first; looked up when they are needed. */
  others: readonly ListForm[] | undefined;
  /** How far they are known to be alike. */
  alike: number;
}

function matching(field: number, form: ListForm, done: number): Match {
  return { field, form, done, others: undefined, alike: HEAD_BYTES };
}

/** One message after the other, of one stream. Keeps nothing of the pieces but copies. */
export class MessageAssembly {
  readonly #lists: ListFields;
  /** Lists that were found in the stream's last messages, the last first. */
  readonly #recent: { readonly field: number; readonly form: ListForm }[] = [];
  #length = 0;
  /** Bytes of the message behind the piece that is being taken. */
  #missing = 0;
  /** What is no known list. */
  #gathered = NO_BYTES;
  #filled = 0;
  /**
   * The fields before this offset of what is gathered were looked at; behind `#filled` while the last of them is on its
   * way.
   */
  #scanned = 0;
  #lookups = 0;
  /** Bytes that this message has added to lists that are being learned. */
  #appended = 0;
  #known: KnownRun[] | undefined;
  #match: Match | undefined;
  #following: Following | undefined;
  /** The last list that was learned from this stream, to the end. */
  #last: { readonly field: number; readonly length: number } | undefined;
  /** Nothing more is looked for: the rest is gathered. */
  #plain = false;

  constructor(lists: ListFields) {
    this.#lists = lists;
  }

  /** Begins a message of so many bytes; the one before was finished. */
  begin(length: number): void {
    this.#length = length;
    this.#missing = length;
    this.#filled = 0;
    this.#scanned = 0;
    this.#lookups = 0;
    this.#known = undefined;
    this.#plain = length < HEAD_BYTES;
  }

  /** Takes more of the message: a part of `bytes`. */
  take(bytes: Buffer, start: number, end: number): void {
    this.#missing -= end - start;
    for (let at = start; at < end; ) {
      if (this.#match !== undefined) at = this.#compare(this.#match, bytes, at, end);
      else if (this.#following !== undefined) at = this.#follow(this.#following, bytes, at, end);
      else if (this.#plain) at = this.#gather(bytes, at, end);
      else if (this.#filled < this.#scanned)
        at = this.#gather(bytes, at, Math.min(end, at + this.#scanned - this.#filled));
      else if (this.#filled > this.#scanned) at = this.#searchGathered(bytes, at, end);
      else at = this.#search(bytes, at, end);
    }
  }

  /** Bytes of the message that are kept because of it: not those of lists that others have brought, or bring. */
  get kept(): number {
    return this.#filled + this.#appended;
  }

  /** The message, when all of it was taken. */
  finish(): Assembled {
    if (this.#following !== undefined) this.#followedToEnd(this.#following);
    if (this.#match !== undefined) this.#differs(this.#match, undefined, 0);
    const bytes = this.#gathered.subarray(0, this.#filled);
    const kept = this.kept;
    this.#filled = 0;
    this.#appended = 0;
    if (this.#gathered.length > KEPT_BYTES) this.#gathered = NO_BYTES;
    return { bytes, known: this.#known ?? NOTHING_KNOWN, kept };
  }

  /** Copies a part of `bytes`; returns its end. */
  #gather(bytes: Buffer, start: number, end: number): number {
    const filled = this.#filled + end - start;
    if (filled > this.#gathered.length) {
      const room = Math.max(FIRST_BYTES, Math.min(this.#length, GROWTH * filled));
      const larger = Buffer.allocUnsafe(room);
      this.#gathered.copy(larger, 0, 0, this.#filled);
      this.#gathered = larger;
    }
    bytes.copy(this.#gathered, this.#filled, start, end);
    this.#filled = filled;
    return end;
  }

  /**
   * Goes over the fields of a piece to the next list that is known, or being learned. Returns how far the piece was
   * used.
   */
  #search(bytes: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end) {
      if (!this.#readField(bytes, at, end)) break;
      const field = scan.number;
      const behind = scan.end;
      const index = this.#indexOf(field, end - at + this.#missing);
      if (index !== undefined) {
        if (end - at < HEAD_BYTES) break;
        if (!isShort(field, bytes, at)) {
          this.#scanned = this.#filled + at - start;
          this.#gather(bytes, start, at);
          return at + this.#begin(field, index, bytes, at, end - at + this.#missing);
        }
      }
      at = behind;
    }
    this.#scanned = this.#filled + at - start;
    return this.#gather(bytes, start, end);
  }

  /** Likewise where a piece has ended at the beginning of a field: with a little more of it. */
  #searchGathered(bytes: Buffer, start: number, end: number): number {
    const taken = this.#gather(bytes, start, Math.min(end, start + this.#scanned + HEAD_BYTES - this.#filled));
    while (this.#scanned < this.#filled && this.#readField(this.#gathered, this.#scanned, this.#filled)) {
      const at = this.#scanned;
      const field = scan.number;
      const behind = scan.end;
      const left = this.#filled - at + end - taken + this.#missing;
      const index = this.#indexOf(field, left);
      if (index !== undefined) {
        if (this.#filled - at < HEAD_BYTES) break;
        if (!isShort(field, this.#gathered, at)) {
          // The beginning of the list is taken back.
          this.#filled = at;
          if (this.#begin(field, index, this.#gathered, at, left) === 0) this.#filled = at + HEAD_BYTES;
          break;
        }
      }
      this.#scanned = behind;
    }
    return taken;
  }

  /**
   * Reads the beginning of the next field; false when there is too little of it, or no list is to be looked for any
   * more.
   */
  #readField(bytes: Buffer, start: number, end: number): boolean {
    if (this.#filled <= MAX_SCANNED_BYTES && scan.read(bytes, start, end)) return true;
    // What cannot be read with as much as this is no such field.
    this.#plain = this.#filled > MAX_SCANNED_BYTES || end - start >= MAX_FIELD_HEAD_BYTES;
    return false;
  }

  /** Where lists of the field are known, when `left` bytes can be such a list. */
  #indexOf(field: number, left: number): FormIndex | undefined {
    return left < HEAD_BYTES ? undefined : this.#lists.get(field);
  }

  /**
   * Looks for the list that begins at `start`. Returns how much of it is done: its head, or nothing. `left`: bytes of
   * the message from there on.
   */
  #begin(field: number, index: FormIndex, bytes: Buffer, start: number, left: number): number {
    const form =
      this.#lookups++ < MAX_LOOKUPS
        ? (this.#recentForm(field, bytes, start) ?? index.beginningWith(headAt(bytes, start))[0])
        : undefined;
    if (form !== undefined) this.#match = matching(field, form, HEAD_BYTES);
    else if (this.#lookups <= MAX_LOOKUPS)
      this.#following = this.#join(field, index, bytes, start, start + HEAD_BYTES, left - HEAD_BYTES);
    this.#plain = this.#match === undefined && this.#following === undefined;
    return this.#plain ? 0 : HEAD_BYTES;
  }

  #recentForm(field: number, bytes: Buffer, start: number): ListForm | undefined {
    for (const recent of this.#recent)
      if (recent.field === field && recent.form.bytes.compare(bytes, start, start + HEAD_BYTES, 0, HEAD_BYTES) === 0)
        return recent.form;
    return undefined;
  }

  /**
   * The list that others are at, when it is the same as far as this has come. `left`: bytes of the message behind that.
   */
  #join(
    field: number,
    index: FormIndex,
    bytes: Buffer,
    start: number,
    end: number,
    left: number,
  ): Following | undefined {
    if (end - start + left < MIN_GROWING_BYTES) return undefined;
    const list = index.growing(headAt(bytes, start));
    const common = Math.min(list.filled, end - start);
    if (list.bytes.compare(bytes, start, start + common, 0, common) !== 0) return undefined;
    if (start + common < end) this.#appended += list.append(bytes, start + common, end, left) - start - common;
    return { field, list, done: end - start };
  }

  /** Compares with what is there of the list, or adds to it. */
  #follow(following: Following, bytes: Buffer, at: number, end: number): number {
    const { list, done } = following;
    if (!list.open) {
      this.#leave(following);
      return at;
    }
    if (done === list.filled) {
      const taken = list.append(bytes, at, end, this.#missing);
      following.done = list.filled;
      this.#appended += taken - at;
      return taken;
    }
    const length = Math.min(end - at, list.filled - done);
    const equal = list.bytes.compare(bytes, at, at + length, done, done + length) === 0;
    following.done += equal ? length : equalBytes(list.bytes, done, bytes, at, length);
    if (!equal) this.#leave(following);
    return at + following.done - done;
  }

  #followedToEnd(following: Following): void {
    const { list, done } = following;
    if (list.open && done === list.filled) list.end();
    this.#leave(following);
  }

  /** The list was learned, or is another from here on. */
  #leave({ field, list, done }: Following): void {
    const { form } = list;
    this.#following = undefined;
    if (form === undefined) {
      this.#plain = true;
      this.#gather(list.bytes, 0, done);
    } else if (done < form.bytes.length) this.#match = matching(field, form, done);
    else {
      this.#learned(field, form);
      this.#gather(list.bytes, form.bytes.length, done);
    }
  }

  /**
   * What this stream has brought anew stays with it when it says the same a second time: before, maybe nobody ever
   * does.
   */
  #learned(field: number, form: ListForm): void {
    const last = this.#last;
    this.#last = { field, length: form.bytes.length };
    if (last?.field === field && last.length === form.bytes.length) this.#found(field, form);
    else this.#take(field, form);
  }

  #compare(match: Match, bytes: Buffer, at: number, end: number): number {
    const { form, done } = match;
    const known = form.bytes;
    if (done === known.length) {
      // With the tag of its entries again, the list goes on.
      if (bytes[at] === known[0]) this.#differs(match, bytes[at], end - at + this.#missing);
      else this.#found(match.field, form);
      return at;
    }
    const length = Math.min(end - at, known.length - done);
    if (known.compare(bytes, at, at + length, done, done + length) === 0) {
      match.done += length;
      return at + length;
    }
    const equal = equalBytes(known, done, bytes, at, length);
    match.done += equal;
    this.#differs(match, bytes[at + equal], end - at - equal + this.#missing);
    return at + equal;
  }

  #take(field: number, form: ListForm): void {
    this.#match = undefined;
    this.#known ??= [];
    this.#known.push({ at: this.#filled, field, form });
  }

  #found(field: number, form: ListForm): void {
    this.#take(field, form);
    const recent = this.#recent;
    if (recent[0]?.form === form && recent[0].field === field) return;
    const before = recent.findIndex((one) => one.form === form && one.field === field);
    if (before > 0) recent.splice(before, 1);
    else if (recent.length === MAX_RECENT) recent.pop();
    recent.unshift({ field, form });
  }

  /**
   * Behind what is equal comes another byte than in the form, or more than it has, or the end: on with another form, if
   * there is one. `left`: bytes of the message from there on.
   */
  #differs(match: Match, byte: number | undefined, left: number): void {
    const { field, form, done } = match;
    const index = this.#lists.get(field);
    const others = match.others ?? index?.beginningWith(headAt(form.bytes, 0)) ?? [];
    const alike = others.filter(
      ({ bytes }) =>
        bytes !== form.bytes &&
        bytes.length >= done &&
        bytes.compare(form.bytes, match.alike, done, match.alike, done) === 0,
    );
    const next = byte === undefined ? undefined : alike.find(({ bytes }) => bytes[done] === byte);
    if (next !== undefined) {
      this.#match = { field, form: next, done, others: alike, alike: done };
      return;
    }
    this.#match = undefined;
    const whole = form.bytes.length === done ? form : alike.find(({ bytes }) => bytes.length === done);
    const goesOn = byte !== undefined && (whole === undefined || byte === form.bytes[0]);
    if (goesOn && index !== undefined) this.#following = this.#join(field, index, form.bytes, 0, done, left);
    if (this.#following !== undefined) return;
    if (whole !== undefined) {
      this.#found(field, whole);
      return;
    }
    this.#plain = true;
    this.#gather(form.bytes, 0, done);
  }
}
