/**
 * Assembles a large request while it arrives. Thousands of proxies send the same lists of thousands of names, 100 kB
 * and more at a time; assembled for each of them, these would be most of what the server allocates. So the bytes that
 * arrive are compared with known lists, piece by piece, and dropped; only new bytes are kept. The lists of this
 * stream's last messages are tried first: an acknowledgement of the state of the world variant repeats all names, and
 * then costs a few comparisons of memory.
 *
 * Other fields are collected in a small buffer, which is a well-formed message: the request without its known lists.
 */
import { FieldScanner, MAX_FIELD_HEAD_BYTES } from '../../protobuf/wire/index.ts';
import { type BuilderMatch, equalBytes, type FormMatch, matchOf, RecentForms } from './list-match.ts';
import type { ListForm } from './name-list-builder.ts';
import { type FormIndex, HEAD_BYTES, headAt } from './name-list-cache.ts';

/** Fields of a message that have lists, by number. */
export type ListFields = ReadonlyMap<number, FormIndex>;

/** A known list in place of its bytes. */
export interface KnownRun {
  /** Where it was, as an offset in the bytes without it. */
  readonly at: number;
  /** Number of its field. */
  readonly field: number;
  readonly form: ListForm;
}

/** A request without its known lists. */
export interface Assembled {
  /** Valid until a message of any stream is read further. */
  readonly bytes: Buffer;
  readonly known: readonly KnownRun[];
  /** Bytes that were kept for this message, without the bytes of lists that other streams have sent. */
  readonly kept: number;
}

/** No list is looked for after this many bytes of other fields (a Node has 2-20 kB). */
const MAX_SCANNED_BYTES = 64 * 1024;

/** Factor by which the buffer grows: memory is allocated for received bytes, whatever length was announced. */
const GROWTH = 4;

/** First size of the buffer: an acknowledgement without its list has 100-200 bytes. */
const FIRST_BYTES = 256;

/** A larger buffer is dropped after the message, others are used again. */
const KEPT_BYTES = 1024;

/** Lists looked up in one message; Envoy sends at most three. Bounds the cost of a message of alternating fields. */
const MAX_LOOKUPS = 8;

/** Shorter lists that are not known are not learned. */
const MIN_LEARNED_BYTES = 16 * 1024;

const NO_BYTES = Buffer.alloc(0);
const NOTHING_KNOWN: readonly KnownRun[] = [];

const scan = new FieldScanner();

/**
 * The buffer of the last message of any stream. Most messages are short and arrive as a whole: a buffer for each stream
 * would mostly be unused, and keep the piece of Node's pool that it is a part of.
 */
let spare = NO_BYTES;

/** True when the list at `start` ends within {@link HEAD_BYTES}: no list is known by so little. */
function isShort(field: number, bytes: Buffer, start: number): boolean {
  const end = start + HEAD_BYTES;
  for (let at = start; at < end && scan.read(bytes, at, end); at = scan.end) if (scan.number !== field) return true;
  return false;
}

/** The messages of one stream, one after the other. Keeps no reference to the pieces. */
export class MessageAssembly {
  readonly #lists: ListFields;
  readonly #recent = new RecentForms();
  #messageBytes = 0;
  /** Bytes of the message after the piece that is being read. */
  #remaining = 0;
  /** The bytes outside of known lists. */
  #buffer = NO_BYTES;
  #filled = 0;
  /**
   * Offset in the buffer up to which fields were scanned; greater than `#filled` while the last of them has not arrived
   * completely.
   */
  #scanned = 0;
  #lookups = 0;
  /** Bytes that this message has added to lists that are being learned. */
  #appended = 0;
  #known: KnownRun[] | undefined;
  #match: FormMatch | undefined;
  #builderMatch: BuilderMatch | undefined;
  /** The last list that was learned while this stream sent it. */
  #last: { readonly field: number; readonly length: number } | undefined;
  /** No more lists are looked for: the rest is kept. */
  #keepRest = false;

  constructor(lists: ListFields) {
    this.#lists = lists;
  }

  /** Begins a message of this length; the message before was finished. */
  begin(length: number): void {
    this.#messageBytes = length;
    this.#remaining = length;
    this.#filled = 0;
    this.#scanned = 0;
    this.#lookups = 0;
    this.#known = undefined;
    this.#keepRest = length < HEAD_BYTES;
  }

  /** Reads more of the message: a part of `bytes`. */
  take(bytes: Buffer, start: number, end: number): void {
    this.#remaining -= end - start;
    for (let at = start; at < end; ) {
      if (this.#match !== undefined) at = this.#compareWithForm(this.#match, bytes, at, end);
      else if (this.#builderMatch !== undefined) at = this.#compareWithBuilder(this.#builderMatch, bytes, at, end);
      else if (this.#keepRest) at = this.#keep(bytes, at, end);
      else if (this.#filled < this.#scanned)
        at = this.#keep(bytes, at, Math.min(end, at + this.#scanned - this.#filled));
      else if (this.#filled > this.#scanned) at = this.#searchBuffer(bytes, at, end);
      else at = this.#search(bytes, at, end);
    }
  }

  /** Bytes that are kept for this message, without the bytes of lists that other streams have sent or are sending. */
  get kept(): number {
    return this.#filled + this.#appended;
  }

  /** The message, after all of it was read. */
  finish(): Assembled {
    if (this.#builderMatch !== undefined) this.#endBuilderMatch(this.#builderMatch);
    if (this.#match !== undefined) this.#tryOthers(this.#match, undefined, 0);
    const bytes = this.#buffer.subarray(0, this.#filled);
    const kept = this.kept;
    this.#filled = 0;
    this.#appended = 0;
    if (this.#buffer.length > 0 && this.#buffer.length <= KEPT_BYTES) spare = this.#buffer;
    this.#buffer = NO_BYTES;
    return { bytes, known: this.#known ?? NOTHING_KNOWN, kept };
  }

  /** Copies a part of `bytes`; returns its end. */
  #keep(bytes: Buffer, start: number, end: number): number {
    const filled = this.#filled + end - start;
    if (this.#buffer.length === 0) {
      this.#buffer = spare;
      spare = NO_BYTES;
    }
    if (filled > this.#buffer.length) {
      const size = Math.max(FIRST_BYTES, Math.min(this.#messageBytes, GROWTH * filled));
      const larger = Buffer.allocUnsafe(size);
      this.#buffer.copy(larger, 0, 0, this.#filled);
      this.#buffer = larger;
    }
    bytes.copy(this.#buffer, this.#filled, start, end);
    this.#filled = filled;
    return end;
  }

  /**
   * Scans the fields of a piece up to the next list that is known or being learned.
   * @returns the offset up to which the piece was read
   */
  #search(bytes: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end) {
      if (!this.#readField(bytes, at, end)) break;
      const field = scan.number;
      const after = scan.end;
      const index = this.#indexOf(field, end - at + this.#remaining);
      if (index !== undefined) {
        if (end - at < HEAD_BYTES) break;
        if (!isShort(field, bytes, at)) {
          this.#scanned = this.#filled + at - start;
          this.#keep(bytes, start, at);
          return at + this.#beginList(field, index, bytes, at, end - at + this.#remaining);
        }
      }
      at = after;
    }
    this.#scanned = this.#filled + at - start;
    return this.#keep(bytes, start, end);
  }

  /** Continues {@link #search} in the buffer when the previous piece ended at the beginning of a field. */
  #searchBuffer(bytes: Buffer, start: number, end: number): number {
    const taken = this.#keep(bytes, start, Math.min(end, start + this.#scanned + HEAD_BYTES - this.#filled));
    while (this.#scanned < this.#filled && this.#readField(this.#buffer, this.#scanned, this.#filled)) {
      const at = this.#scanned;
      const field = scan.number;
      const after = scan.end;
      const left = this.#filled - at + end - taken + this.#remaining;
      const index = this.#indexOf(field, left);
      if (index !== undefined) {
        if (this.#filled - at < HEAD_BYTES) break;
        if (!isShort(field, this.#buffer, at)) {
          // The beginning of the list is removed from the buffer.
          this.#filled = at;
          if (this.#beginList(field, index, this.#buffer, at, left) === 0) this.#filled = at + HEAD_BYTES;
          break;
        }
      }
      this.#scanned = after;
    }
    return taken;
  }

  /**
   * Reads the head of the next field. False when too little of it has arrived, or no more lists are looked for.
   */
  #readField(bytes: Buffer, start: number, end: number): boolean {
    if (this.#filled <= MAX_SCANNED_BYTES && scan.read(bytes, start, end)) return true;
    // With this many bytes, a length-delimited field could be read.
    this.#keepRest = this.#filled > MAX_SCANNED_BYTES || end - start >= MAX_FIELD_HEAD_BYTES;
    return false;
  }

  /** The known lists of the field, if `left` bytes are enough for one. */
  #indexOf(field: number, left: number): FormIndex | undefined {
    return left < HEAD_BYTES ? undefined : this.#lists.get(field);
  }

  /**
   * Looks for the list that begins at `start`.
   * @param left bytes of the message from there on
   * @returns how many bytes were matched: the length of the head, or 0
   */
  #beginList(field: number, index: FormIndex, bytes: Buffer, start: number, left: number): number {
    const form =
      this.#lookups++ < MAX_LOOKUPS
        ? (this.#recent.find(field, bytes, start) ?? index.beginningWith(headAt(bytes, start))[0])
        : undefined;
    if (form !== undefined) this.#match = matchOf(field, form, HEAD_BYTES);
    else if (this.#lookups <= MAX_LOOKUPS)
      this.#builderMatch = this.#matchBuilder(field, index, bytes, start, start + HEAD_BYTES, left - HEAD_BYTES);
    this.#keepRest = this.#match === undefined && this.#builderMatch === undefined;
    return this.#keepRest ? 0 : HEAD_BYTES;
  }

  /**
   * Matches the list from `start` to `end` with the list that other streams are adding.
   * @param left bytes of the message after `end`
   * @returns undefined when they differ
   */
  #matchBuilder(
    field: number,
    index: FormIndex,
    bytes: Buffer,
    start: number,
    end: number,
    left: number,
  ): BuilderMatch | undefined {
    if (end - start + left < MIN_LEARNED_BYTES) return undefined;
    const list = index.builderFor(headAt(bytes, start));
    const common = Math.min(list.filled, end - start);
    if (list.bytes.compare(bytes, start, start + common, 0, common) !== 0) return undefined;
    if (start + common < end) this.#appended += list.append(bytes, start + common, end, left) - start - common;
    return { field, list, done: end - start };
  }

  /** Compares a piece with the list that is being learned, or appends to that. */
  #compareWithBuilder(match: BuilderMatch, bytes: Buffer, at: number, end: number): number {
    const { list, done } = match;
    if (!list.open) {
      this.#leaveBuilder(match);
      return at;
    }
    if (done === list.filled) {
      const taken = list.append(bytes, at, end, this.#remaining);
      match.done = list.filled;
      this.#appended += taken - at;
      return taken;
    }
    const length = Math.min(end - at, list.filled - done);
    const equal = list.bytes.compare(bytes, at, at + length, done, done + length) === 0;
    match.done += equal ? length : equalBytes(list.bytes, done, bytes, at, length);
    if (!equal) this.#leaveBuilder(match);
    return at + match.done - done;
  }

  #endBuilderMatch(match: BuilderMatch): void {
    const { list, done } = match;
    if (list.open && done === list.filled) list.end();
    this.#leaveBuilder(match);
  }

  /** The list was learned, or differs from here on. */
  #leaveBuilder({ field, list, done }: BuilderMatch): void {
    const { form } = list;
    this.#builderMatch = undefined;
    if (form === undefined) {
      this.#keepRest = true;
      this.#keep(list.bytes, 0, done);
    } else if (done < form.bytes.length) this.#match = matchOf(field, form, done);
    else {
      this.#addLearned(field, form);
      this.#keep(list.bytes, form.bytes.length, done);
    }
  }

  /**
   * A learned list is remembered by its stream only when it is sent a second time: it may never be sent again.
   */
  #addLearned(field: number, form: ListForm): void {
    const last = this.#last;
    this.#last = { field, length: form.bytes.length };
    if (last?.field === field && last.length === form.bytes.length) this.#addFound(field, form);
    else this.#addKnown(field, form);
  }

  #compareWithForm(match: FormMatch, bytes: Buffer, at: number, end: number): number {
    const { form, done } = match;
    const known = form.bytes;
    if (done === known.length) {
      // Another entry with the same tag continues the list.
      if (bytes[at] === known[0]) this.#tryOthers(match, bytes[at], end - at + this.#remaining);
      else this.#addFound(match.field, form);
      return at;
    }
    const length = Math.min(end - at, known.length - done);
    if (known.compare(bytes, at, at + length, done, done + length) === 0) {
      match.done += length;
      return at + length;
    }
    const equal = equalBytes(known, done, bytes, at, length);
    match.done += equal;
    this.#tryOthers(match, bytes[at + equal], end - at - equal + this.#remaining);
    return at + equal;
  }

  #addKnown(field: number, form: ListForm): void {
    this.#match = undefined;
    this.#known ??= [];
    this.#known.push({ at: this.#filled, field, form });
  }

  #addFound(field: number, form: ListForm): void {
    this.#addKnown(field, form);
    this.#recent.add(field, form);
  }

  /**
   * The list differs from the form here, goes on after its end, or ends before it: continues with another form, if one
   * matches.
   * @param byte next byte of the list; undefined at the end of the message
   * @param left bytes of the message from there on
   */
  #tryOthers(match: FormMatch, byte: number | undefined, left: number): void {
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
    const continues = byte !== undefined && (whole === undefined || byte === form.bytes[0]);
    if (continues && index !== undefined)
      this.#builderMatch = this.#matchBuilder(field, index, form.bytes, 0, done, left);
    if (this.#builderMatch !== undefined) return;
    if (whole !== undefined) {
      this.#addFound(field, whole);
      return;
    }
    this.#keepRest = true;
    this.#keep(form.bytes, 0, done);
  }
}
