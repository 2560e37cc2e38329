/**
 * Makes debug pages beside the program's real work. A page of a large mesh takes seconds, so it is made in slices of
 * some milliseconds between which the event loop turns, one page at a time, within bounds of bytes and time, and not at
 * all once its reader has gone. Pages that are made and wait for slow readers are bounded together; no address gets all
 * places or all bytes.
 */
import { CtlError } from '../core/errors.ts';
import { PerAddressLimiter } from '../grpc/index.ts';

export interface PageLimits {
  /** Work between two turns of the event loop, ms. */
  readonly sliceMs: number;
  /** Size of one page, bytes. */
  readonly maxBytes: number;
  /** Time that making one page may take, waiting excluded, ms. */
  readonly maxMs: number;
  /** Pages that wait to be made, and the one being made. */
  readonly maxWaiting: number;
  /** Bytes of made pages that their readers have not taken. */
  readonly maxUnsentBytes: number;
}

const MIB = 2 ** 20;

export const PAGE_LIMITS: PageLimits = {
  sliceMs: 5,
  maxBytes: 64 * MIB,
  maxMs: 30_000,
  maxWaiting: 16,
  maxUnsentBytes: 256 * MIB,
};

/** Text is gathered up to this many characters before it becomes bytes. */
const CHUNK_CHARS = 64 * 1024;

export interface PageMakerOptions {
  /** Monotonic, ms. */
  readonly now: () => number;
  /** Resolves when the event loop has turned. */
  readonly nextTurn: () => Promise<void>;
  readonly limits?: Partial<PageLimits>;
}

/** Who asks for a page. */
export interface PageReader {
  /** Client address. */
  readonly address: string;
  /** Aborted when the client has gone. */
  readonly gone: AbortSignal;
}

export interface MadePage {
  readonly chunks: readonly Buffer[];
  readonly bytes: number;
  /** To be called when the reader has taken all, or has gone. */
  release(): void;
}

/** Called when it is the page's turn; undefined: there is nothing to show. */
type Pieces = () => Iterable<string> | undefined;

export class PageMaker {
  readonly #options: PageMakerOptions;
  readonly #limits: PageLimits;
  readonly #places: PerAddressLimiter;
  readonly #unsent: PerAddressLimiter;
  /** Settles when the pages that were asked for so far are made or given up. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: PageMakerOptions) {
    this.#options = options;
    this.#limits = { ...PAGE_LIMITS, ...options.limits };
    this.#places = new PerAddressLimiter(this.#limits.maxWaiting);
    this.#unsent = new PerAddressLimiter(this.#limits.maxUnsentBytes);
  }

  /**
   * Makes a page of the pieces of its text; undefined when there are none. Rejects with CtlError `unavailable` (too
   * many pages at once; ask again later), `resource_exhausted` (the page is too large or takes too long) or
   * `deadline_exceeded` (the reader has gone).
   */
  async make(pieces: Pieces, reader: PageReader): Promise<MadePage | undefined> {
    const leave = this.#places.enter(reader.address);
    if (leave === undefined) throw busy('too many debug pages are being made');
    const before = this.#last;
    const made = before.then(() => this.#gather(pieces, reader)).finally(leave);
    this.#last = made.catch(() => {});
    const page = await made;
    if (page === undefined) return undefined;
    const { chunks, bytes } = page;
    const release = this.#unsent.enter(reader.address, Math.max(1, bytes));
    if (release === undefined) throw busy('too many debug pages wait for slow readers');
    return { chunks, bytes, release };
  }

  async #gather(pieces: Pieces, { gone }: PageReader): Promise<Omit<MadePage, 'release'> | undefined> {
    const { sliceMs, maxBytes, maxMs } = this.#limits;
    const { now, nextTurn } = this.#options;
    if (gone.aborted) throw hungUp();
    const begun = now();
    const all = pieces();
    if (all === undefined) return undefined;
    let sliceEnds = begun + sliceMs;
    const chunks: Buffer[] = [];
    let [text, bytes] = ['', 0];
    for (const piece of all) {
      text += piece;
      if (text.length >= CHUNK_CHARS) {
        const chunk = Buffer.from(text);
        text = '';
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > maxBytes) throw narrower(`the page is larger than ${maxBytes / MIB} MiB`);
      }
      if (now() < sliceEnds) continue;
      if (now() - begun > maxMs) throw narrower(`making the page takes longer than ${maxMs / 1000} s`);
      await nextTurn();
      if (gone.aborted) throw hungUp();
      sliceEnds = now() + sliceMs;
    }
    const rest = Buffer.from(`${text}\n`);
    return { chunks: [...chunks, rest], bytes: bytes + rest.length };
  }
}

function busy(why: string): CtlError {
  return new CtlError('unavailable', `${why}, ask again later`);
}

function narrower(why: string): CtlError {
  return new CtlError('resource_exhausted', `${why}; ask for less: ?proxyID=, ?namespace= or ?kind=`);
}

function hungUp(): CtlError {
  return new CtlError('deadline_exceeded', 'the client has gone');
}
