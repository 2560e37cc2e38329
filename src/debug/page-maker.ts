/**
 * Builds debug pages without delaying pushes. A page of a large mesh takes seconds, so it is built in slices of some
 * milliseconds with a turn of the event loop between them. One page is built at a time, with limits on its bytes and
 * time, and building stops when the client closes the connection. Waiting pages and the bytes of pages for slow clients
 * have limits per client address and in total.
 */
import { CtlError } from '../core/errors.ts';
import { PerAddressLimiter } from '../grpc/index.ts';

export interface PageLimits {
  /** Length of a slice, ms. */
  readonly sliceMs: number;
  /** Largest size of a page, bytes. */
  readonly maxBytes: number;
  /** Time limit for building a page, without the time before it, ms. */
  readonly maxMs: number;
  /** Pages that wait, with the one that is being built. */
  readonly maxWaiting: number;
  /** Bytes of complete pages that are not sent yet. */
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

/** Text is collected up to this many characters before it is encoded. */
const CHUNK_CHARS = 64 * 1024;

export interface PageMakerOptions {
  /** Monotonic, ms. */
  readonly now: () => number;
  /** Resolves in the next turn of the event loop. */
  readonly nextTurn: () => Promise<void>;
  readonly limits?: Partial<PageLimits>;
}

/** The client of a page. */
export interface PageClient {
  /** IP address. */
  readonly address: string;
  /** Aborted when the client closes the connection. */
  readonly closed: AbortSignal;
}

export interface BuiltPage {
  readonly chunks: readonly Uint8Array[];
  readonly bytes: number;
  /** The caller calls this when the page is sent or the connection is closed. */
  release(): void;
}

/** Called when building begins. Pieces of bytes become chunks of their own. Undefined: there is no such page. */
type Pieces = () => Iterable<string | Uint8Array> | undefined;

export class PageMaker {
  readonly #options: PageMakerOptions;
  readonly #limits: PageLimits;
  readonly #waiting: PerAddressLimiter;
  readonly #unsent: PerAddressLimiter;
  /** Settles when all pages so far are built or abandoned. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: PageMakerOptions) {
    this.#options = options;
    this.#limits = { ...PAGE_LIMITS, ...options.limits };
    this.#waiting = new PerAddressLimiter(this.#limits.maxWaiting);
    this.#unsent = new PerAddressLimiter(this.#limits.maxUnsentBytes);
  }

  /**
   * Builds a page from the pieces of its text. Resolves with undefined when there are none. Rejects with CtlError
   * `unavailable` (too many pages at once), `resource_exhausted` (the page is too large or takes too long) or
   * `deadline_exceeded` (the client has closed the connection).
   */
  async make(pieces: Pieces, client: PageClient): Promise<BuiltPage | undefined> {
    const leave = this.#waiting.enter(client.address);
    if (leave === undefined) throw busy('too many debug pages are being built');
    const before = this.#last;
    const made = before.then(() => this.#build(pieces, client)).finally(leave);
    this.#last = made.catch(() => {});
    const page = await made;
    if (page === undefined) return undefined;
    const { chunks, bytes } = page;
    const release = this.#unsent.enter(client.address, Math.max(1, bytes));
    if (release === undefined) throw busy('too many debug pages wait for slow clients');
    return { chunks, bytes, release };
  }

  async #build(pieces: Pieces, { closed }: PageClient): Promise<Omit<BuiltPage, 'release'> | undefined> {
    const { sliceMs, maxBytes, maxMs } = this.#limits;
    const { now, nextTurn } = this.#options;
    if (closed.aborted) throw closedByClient();
    const started = now();
    const all = pieces();
    if (all === undefined) return undefined;
    let sliceEnds = started + sliceMs;
    const chunks: Uint8Array[] = [];
    let [text, bytes, isText] = ['', 0, false];
    const add = (chunk: Uint8Array): void => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) throw narrower(`the page is larger than ${maxBytes / MIB} MiB`);
    };
    for (const piece of all) {
      if (typeof piece !== 'string') add(piece);
      else {
        text += piece;
        isText = true;
        if (text.length >= CHUNK_CHARS) {
          add(Buffer.from(text));
          text = '';
        }
      }
      if (now() < sliceEnds) continue;
      if (now() - started > maxMs) throw narrower(`building the page takes longer than ${maxMs / 1000} s`);
      await nextTurn();
      if (closed.aborted) throw closedByClient();
      sliceEnds = now() + sliceMs;
    }
    if (isText) add(Buffer.from(`${text}\n`));
    return { chunks, bytes };
  }
}

function busy(why: string): CtlError {
  return new CtlError('unavailable', `${why}, try again later`);
}

function narrower(why: string): CtlError {
  return new CtlError('resource_exhausted', `${why}; use a filter: ?proxyID=, ?namespace= or ?kind=`);
}

function closedByClient(): CtlError {
  return new CtlError('deadline_exceeded', 'the client has closed the connection');
}
