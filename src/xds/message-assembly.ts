/**
 * One large request while it arrives. Thousands of proxies send the same lists of thousands of names, 100 kB and more at a time:
 * put together for each of them they would be most of what the server allocates. So what arrives is compared with the lists that are
 * known, piece by piece, and let go; only what is new is kept.
 *
 * Between lists the fields are gathered in a small buffer, which is a well-formed message by itself: the request without its known lists.
 */
import { type FormIndex, HEAD_BYTES, headAt, type ListForm } from './known-lists.ts';
import { WIRE_BYTES } from './wire.ts';

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

/** Reads a varint: [value, offset behind it], or undefined when it does not end before `end`. */
function varintAt(bytes: Buffer, start: number, end: number): [number, number] | undefined {
  let value = 0;
  let scale = 1;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return [value, at + 1];
    scale *= 128;
  }
  return undefined;
}

/** Field number and end of the length-delimited field at `start`; undefined when too little of it is there, or it is of another kind. */
function fieldAt(bytes: Buffer, start: number, end: number): { number: number; end: number } | undefined {
  const tag = varintAt(bytes, start, end);
  if (tag === undefined || tag[0] % 8 !== WIRE_BYTES) return undefined;
  const length = varintAt(bytes, tag[1], end);
  return length === undefined ? undefined : { number: Math.floor(tag[0] / 8), end: length[1] + length[0] };
}

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

function samePrefix(a: ListForm, b: ListForm, length: number): boolean {
  return a.bytes.length >= length && a.bytes.compare(b.bytes, 0, length, 0, length) === 0;
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
      else if (this.#plain) at = this.#gather(piece, at, piece.length);
      else at = this.#search(piece, at);
    }
  }

  /** The message, when all of it was taken: its bytes without the known lists, and these. */
  finish(): { readonly bytes: Buffer; readonly known: readonly KnownRun[] } {
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
    const match = this.#scan(this.#missing + piece.length - end);
    if (match === undefined) return end;
    // Its head is equal, so that what was gathered of it earlier is.
    match.done = Math.max(0, before - this.#filled);
    this.#match = match;
    return at + Math.max(0, this.#filled - before);
  }

  /** Goes on over gathered fields to the next list that is known, and takes its beginning back. `left`: bytes not gathered yet. */
  #scan(left: number): Match | undefined {
    for (;;) {
      const start = this.#scanned;
      const field = fieldAt(this.#gathered, start, this.#filled);
      const index = field === undefined ? undefined : this.#lists.get(field.number);
      if (field === undefined || index === undefined) {
        if (field === undefined || field.end > this.#filled) {
          this.#plain = this.#filled > MAX_SCANNED_BYTES;
          return undefined;
        }
        this.#scanned = field.end;
        continue;
      }
      if (this.#filled - start < HEAD_BYTES) return undefined;
      const room = this.#filled - start + left;
      const forms = this.#lookups++ < MAX_LOOKUPS ? index.beginningWith(headAt(this.#gathered, start)) : [];
      const [form, ...others] = forms.filter(({ bytes }) => bytes.length <= room);
      this.#plain = form === undefined;
      if (form === undefined) return undefined;
      this.#filled = start;
      return { field: field.number, form, done: 0, others };
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

  #found({ field, form }: Match): void {
    this.#known.push({ at: this.#filled, field, form });
    this.#match = undefined;
  }

  /** Behind what is equal comes another byte than in the form, or the end: on with another form, if there is one. */
  #differs(match: Match, byte: number | undefined): void {
    const { form, done } = match;
    const alike = match.others.filter((other) => samePrefix(other, form, done));
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
    this.#plain = true;
    this.#gather(form.bytes, 0, done);
  }
}
