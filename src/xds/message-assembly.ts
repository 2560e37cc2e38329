/**
 * One large request while it arrives. Thousands of proxies send the same lists of thousands of names, 100 kB and more at a time:
 * put together for each of them they would be most of what the server allocates. So what arrives is compared with the lists that are
 * known, piece by piece, and let go; only what is new is kept.
 *
 * Between lists the fields are gathered in a small buffer, which is a well-formed message by itself: the request without its known lists.
 */
import { fieldAt, type GrowingList } from './growing-list.ts';
import { type FormIndex, HEAD_BYTES, headAt, type ListForm } from './known-lists.ts';

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

/** Bytes copied at a time while looking for the next list. */
const STEP_BYTES = 512;

/** No list is looked for behind this many bytes of other fields (a Node has 2-20 kB). */
const MAX_SCANNED_BYTES = 64 * 1024;

/** How the buffer grows: room is only taken for what has come, whatever length was announced. */
const GROWTH = 4;

/** Lists looked up in one message; Envoys send at most three. Ends what a message of alternating fields could cost. */
const MAX_LOOKUPS = 8;

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

/** True when the first `length` bytes of both are there and equal. */
function startsWith(a: Buffer, b: Buffer, length: number): boolean {
  return a.length >= length && b.length >= length && a.compare(b, 0, length, 0, length) === 0;
}

/** Shorter lists that are not known are gathered. */
const MIN_GROWING_BYTES = 16 * 1024;

/** What has come of a list equals the first `done` bytes of one that is being learned, from this stream or others. */
interface Following {
  readonly field: number;
  readonly list: GrowingList;
  done: number;
}

/** What has come of a list equals the first `done` bytes of `form`. */
interface Match {
  readonly field: number;
  form: ListForm;
  done: number;
  /** Others that begin alike, longest first. */
  others: ListForm[];
}

export class MessageAssembly {
  readonly #lists: ListFields;
  readonly #length: number;
  #missing: number;
  /** What is no known list. */
  #gathered = Buffer.alloc(0);
  #filled = 0;
  /** The fields before this offset of what is gathered were looked at. */
  #scanned = 0;
  #lookups = 0;
  readonly #known: KnownRun[] = [];
  #match: Match | undefined;
  #following: Following | undefined;
  /** Nothing more is looked for: the rest is gathered. */
  #plain = false;

  /** `length`: bytes of the message. */
  constructor(lists: ListFields, length: number) {
    this.#lists = lists;
    this.#length = length;
    this.#missing = length;
  }

  /** Takes more of the message. */
  take(piece: Buffer): void {
    this.#missing -= piece.length;
    for (let at = 0; at < piece.length; ) {
      if (this.#match !== undefined) at = this.#compare(this.#match, piece, at);
      else if (this.#following !== undefined) at = this.#follow(this.#following, piece, at);
      else if (this.#plain) at = this.#gather(piece, at, piece.length);
      else at = this.#search(piece, at);
    }
  }

  /** The message, when all of it was taken: its bytes without the known lists, and these. */
  finish(): { readonly bytes: Buffer; readonly known: readonly KnownRun[] } {
    if (this.#following !== undefined) this.#followedToEnd(this.#following);
    if (this.#match !== undefined) this.#differs(this.#match, undefined);
    return { bytes: this.#gathered.subarray(0, this.#filled), known: this.#known };
  }

  /** Copies a part of `bytes`; returns its end. */
  #gather(bytes: Buffer, start: number, end: number): number {
    const filled = this.#filled + end - start;
    if (filled > this.#gathered.length) {
      const larger = Buffer.allocUnsafe(Math.min(this.#length, Math.max(GROWTH * filled, 2 * STEP_BYTES)));
      this.#gathered.copy(larger, 0, 0, this.#filled);
      this.#gathered = larger;
    }
    bytes.copy(this.#gathered, this.#filled, start, end);
    this.#filled = filled;
    return end;
  }

  /** Copies a little, and looks whether a known list begins in it. Returns how far the piece was used. */
  #search(piece: Buffer, at: number): number {
    const before = this.#filled;
    const end = this.#gather(piece, at, Math.min(at + STEP_BYTES, piece.length));
    if (!this.#scan(before, this.#missing + piece.length - end)) return end;
    return at + Math.max(0, this.#filled - before);
  }

  /**
   * Goes on over gathered fields to the next list that is known, or being learned, and takes its beginning back, of which what was gathered
   * up to `before` stays done. `left`: bytes not gathered yet. False when nothing was found.
   */
  #scan(before: number, left: number): boolean {
    for (;;) {
      const start = this.#scanned;
      const field = fieldAt(this.#gathered, start, this.#filled);
      const index = field === undefined ? undefined : this.#lists.get(field.number);
      if (field === undefined || index === undefined) {
        if (field === undefined || field.end > this.#filled) {
          this.#plain = this.#filled > MAX_SCANNED_BYTES;
          return false;
        }
        this.#scanned = field.end;
        continue;
      }
      if (this.#filled - start < HEAD_BYTES) return false;
      this.#plain =
        this.#lookups++ >= MAX_LOOKUPS || !this.#find(field.number, index, Math.max(0, before - start), left);
      if (this.#plain) return false;
      this.#filled = start;
      return true;
    }
  }

  /** Looks for what the list begins with that was gathered behind `#scanned`, its first `done` bytes for good. */
  #find(field: number, index: FormIndex, done: number, left: number): boolean {
    const begun = this.#gathered.subarray(this.#scanned, this.#filled);
    const [form, ...others] = index
      .beginningWith(headAt(begun, 0))
      .filter(({ bytes }) => bytes.length <= begun.length + left && startsWith(bytes, begun, done));
    if (form !== undefined) this.#match = { field, form, done, others };
    else this.#following = this.#join(field, index, begun, done, left);
    return this.#match !== undefined || this.#following !== undefined;
  }

  /** The list that others are at, when it is the same as far as `begun`, of which `done` bytes are done. */
  #join(field: number, index: FormIndex, begun: Buffer, done: number, left: number): Following | undefined {
    if (begun.length < HEAD_BYTES || begun.length + left < MIN_GROWING_BYTES) return undefined;
    const list = index.growing(headAt(begun, 0));
    const common = Math.min(list.filled, begun.length);
    if (!startsWith(list.bytes, begun, common)) return undefined;
    list.append(begun, common, begun.length);
    return { field, list, done };
  }

  /** Compares with what is there of the list, or adds to it. */
  #follow(following: Following, piece: Buffer, at: number): number {
    const { list, done } = following;
    if (!list.open) {
      this.#leave(following);
      return at;
    }
    if (done === list.filled) {
      list.append(piece, at, piece.length);
      following.done = list.filled;
      return piece.length;
    }
    const length = Math.min(piece.length - at, list.filled - done);
    const equal = list.bytes.compare(piece, at, at + length, done, done + length) === 0;
    following.done += equal ? length : equalBytes(list.bytes, done, piece, at, length);
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
    } else if (done < form.bytes.length) this.#match = { field, form, done, others: [] };
    else {
      this.#found({ field, form });
      this.#gather(list.bytes, form.bytes.length, done);
    }
  }

  #compare(match: Match, piece: Buffer, at: number): number {
    const { bytes } = match.form;
    const length = Math.min(piece.length - at, bytes.length - match.done);
    if (bytes.compare(piece, at, at + length, match.done, match.done + length) === 0) {
      match.done += length;
      if (match.done === bytes.length) this.#found(match);
      return at + length;
    }
    const equal = equalBytes(bytes, match.done, piece, at, length);
    match.done += equal;
    this.#differs(match, piece[at + equal]);
    return at + equal;
  }

  #found({ field, form }: Pick<Match, 'field' | 'form'>): void {
    this.#known.push({ at: this.#filled, field, form });
    this.#match = undefined;
  }

  /** Behind what is equal comes another byte than in the form, or the end: on with another form, if there is one. */
  #differs(match: Match, byte: number | undefined): void {
    const { form, done } = match;
    const alike = match.others.filter((other) => startsWith(other.bytes, form.bytes, done));
    const next = byte === undefined ? undefined : alike.find(({ bytes }) => bytes[done] === byte);
    if (next !== undefined) {
      match.form = next;
      match.others = alike.filter((other) => other !== next);
      return;
    }
    const whole = alike.find(({ bytes }) => bytes.length === done);
    if (whole !== undefined) {
      this.#found({ ...match, form: whole });
      return;
    }
    this.#match = undefined;
    const index = this.#lists.get(match.field);
    const begun = form.bytes.subarray(0, done);
    if (byte !== undefined && index !== undefined)
      this.#following = this.#join(match.field, index, begun, done, this.#missing);
    if (this.#following !== undefined) return;
    this.#plain = true;
    this.#gather(begun, 0, done);
  }
}
