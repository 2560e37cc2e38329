/**
 * Bodies of responses in compressed form. A body that is sent to several streams is compressed once, outside the main
 * thread; no response waits for that, so the first streams are sent the body as it is. The compressed form lives as
 * long as the body.
 */
import { FairLimiter } from '../../../core/fairness/fair-limiter.ts';
import { TimeFairQueue } from '../../../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../../../core/fairness/time-shares.ts';
import type { Deflated } from '../../../grpc/index.ts';

/**
 * Compressing and decompressing take each side a tenth of a millisecond however few bytes there are, and shorter bodies
 * are often those that only a few sidecars on demand share.
 */
const MIN_BYTES = 16 * 1024;

/** A compressed form that saves less is not kept. */
const MAX_SHARE = 0.75;

/** Bodies that wait to be compressed, half of them for one caller; more are sent as they are. */
const MAX_WAITING = 128;

/** `sent`: once, as it is; `waiting`: to be compressed; `as it is`: compression would not save enough, or fails. */
type State = Deflated | 'sent' | 'waiting' | 'as it is';

/** A body that waits; one that nobody needs any more meanwhile is not compressed. */
interface Waiting {
  readonly body: WeakRef<Uint8Array>;
  readonly caller: string;
  /** It does not wait any more. */
  readonly leave: () => void;
}

/**
 * Callers share the time in which bodies are compressed, which is that of one thread of the pool: a caller with large
 * or ever other bodies delays those of others by its share only. A body that several callers have is charged to the one
 * for which it is compressed.
 */
export class CompressedBodies {
  readonly #deflate: (body: Uint8Array) => Promise<Deflated>;
  readonly #states = new WeakMap<Uint8Array, State>();
  readonly #shares = new TimeShares();
  readonly #waiting = new TimeFairQueue<Waiting>(this.#shares);
  readonly #limiter = new FairLimiter(MAX_WAITING);
  readonly #now: () => number;
  /** One body at a time is compressed: the thread pool has other work. */
  #busy = false;
  #closed = false;

  /**
   * @param deflate compresses a body outside the main thread
   * @param now ms
   */
  constructor(deflate: (body: Uint8Array) => Promise<Deflated>, now = () => performance.now()) {
    this.#deflate = deflate;
    this.#now = now;
  }

  /**
   * The compressed form of a body that is sent to another stream of a caller, if there is one yet; from the second
   * stream on it is compressed.
   */
  of(body: Uint8Array, caller: string): Deflated | undefined {
    if (body.length < MIN_BYTES) return undefined;
    const state = this.#states.get(body);
    if (typeof state === 'object') return state;
    if (state === undefined) this.#states.set(body, 'sent');
    else if (state === 'sent') this.#wait(body, caller);
    return undefined;
  }

  /** Bodies that wait are not compressed: the program would end only afterwards. */
  close(): void {
    this.#closed = true;
  }

  #wait(body: Uint8Array, caller: string): void {
    const leave = this.#limiter.enter(caller);
    if (leave === undefined) return;
    this.#states.set(body, 'waiting');
    this.#waiting.add(caller, { body: new WeakRef(body), caller, leave });
    if (!this.#busy) void this.#compress();
  }

  /** Compresses the bodies that wait, one after the other. */
  async #compress(): Promise<void> {
    this.#busy = true;
    while (!this.#closed) {
      const next = this.#waiting.next();
      if (next === undefined) break;
      next.leave();
      const begun = this.#now();
      const body = next.body.deref();
      if (body !== undefined) this.#states.set(body, await this.#stateOf(body));
      this.#shares.charge(next.caller, this.#now() - begun);
    }
    this.#busy = false;
  }

  async #stateOf(body: Uint8Array): Promise<State> {
    try {
      const deflated = await this.#deflate(body);
      return deflated.blocks.length > body.length * MAX_SHARE ? 'as it is' : deflated;
    } catch {
      // Out of memory: the body is sent as it is.
      return 'as it is';
    }
  }
}
