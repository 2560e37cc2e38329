/**
 * Bodies of responses in compressed form. A body that is sent to several streams is compressed once, outside the main
 * thread; no response waits for that, so the first streams are sent the body as it is. The compressed form lives as
 * long as the body.
 */
import { createFairQueue } from '../../../core/fairness/fair-queue.ts';
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

export class CompressedBodies {
  readonly #deflate: (body: Uint8Array) => Promise<Deflated>;
  readonly #states = new WeakMap<Uint8Array, State>();
  /**
   * By caller, so that one that requests ever other bodies does not keep those of the others from being compressed.
   * Bodies that nobody needs any more while they wait are not compressed.
   */
  readonly #waiting = createFairQueue<WeakRef<Uint8Array>>(MAX_WAITING);
  /** One body at a time is compressed: the thread pool has other work. */
  #busy = false;

  /** @param deflate compresses a body outside the main thread */
  constructor(deflate: (body: Uint8Array) => Promise<Deflated>) {
    this.#deflate = deflate;
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
    else if (state === 'sent' && this.#waiting.push(caller, new WeakRef(body))) {
      this.#states.set(body, 'waiting');
      if (!this.#busy) void this.#compress();
    }
    return undefined;
  }

  /** Bodies that wait are not compressed: the program would end only afterwards. */
  close(): void {
    this.#waiting.take(MAX_WAITING);
  }

  /** Compresses the bodies that wait, one after the other. */
  async #compress(): Promise<void> {
    this.#busy = true;
    for (let [next] = this.#waiting.take(1); next !== undefined; [next] = this.#waiting.take(1)) {
      const body = next.deref();
      if (body !== undefined) this.#states.set(body, await this.#stateOf(body));
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
