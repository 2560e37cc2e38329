/**
 * Writes the responses of one stream: one push after the other, because their slices must not interleave. A response
 * counts as sent when its bytes have left for the socket.
 */

import type { XdsType } from '../../core/xds-types.ts';
import type { SendResult } from '../../grpc/index.ts';
import type { PushOutcome } from '../../push/index.ts';
import type { Outgoing } from '../protocol/index.ts';
import type { RecentFrames } from './recent-frames.ts';
import type { SmallWrites } from './small-writes.ts';
import type { Transport } from './transport.ts';

/** A response that was written. */
export interface WrittenFrame {
  readonly type: XdsType;
  readonly bytes: number;
}

export interface ResponseWriterDeps {
  readonly transport: Transport;
  readonly frames: RecentFrames;
  readonly smallWrites: SmallWrites;
  /** The bytes have left for the socket, or cannot. Returns the outcome of the push; never throws. */
  readonly written: (result: SendResult, frames: readonly WrittenFrame[], started: number) => PushOutcome;
}

function bytesOf(chunks: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const chunk of chunks) bytes += chunk.length;
  return bytes;
}

export class ResponseWriter {
  readonly #deps: ResponseWriterDeps;
  /** A write has not left for the socket yet, whether or not its push has ended. There is one at a time. */
  #writing = false;
  /** Called when it has left. */
  readonly #behind: (() => void)[] = [];
  /** The last push that waits. */
  #waiting: Promise<PushOutcome> | undefined;

  constructor(deps: ResponseWriterDeps) {
    this.#deps = deps;
  }

  /** A new push has to wait for others. */
  get busy(): boolean {
    return this.#writing || this.#waiting !== undefined;
  }

  /**
   * Runs `push` when the pushes before it have ended and their bytes have left. `push` must not throw or reject.
   */
  afterOthers(push: () => PushOutcome | Promise<PushOutcome>): Promise<PushOutcome> {
    const waiting = this.#after(this.#waiting, push);
    this.#waiting = waiting;
    waiting.then(() => {
      if (this.#waiting === waiting) this.#waiting = undefined;
    });
    return waiting;
  }

  async #after(
    previous: Promise<unknown> | undefined,
    push: () => PushOutcome | Promise<PushOutcome>,
  ): Promise<PushOutcome> {
    await previous;
    await this.#left();
    return push();
  }

  /** Resolves when all bytes have left for the socket. */
  #left(): Promise<void> {
    return this.#writing ? new Promise((resolve) => this.#behind.push(resolve)) : Promise.resolve();
  }

  /** Resolves when all pushes have ended and their bytes have left. */
  async idle(): Promise<void> {
    await this.#waiting;
    await this.#left();
  }

  /**
   * Writes responses; not to be called while the writer is busy. A small push ends at once, a larger one when its bytes
   * have left.
   * @param started when the push began
   */
  write(messages: readonly Outgoing[], started: number): PushOutcome | Promise<PushOutcome> {
    const { transport, frames, smallWrites, written } = this.#deps;
    const sent: WrittenFrame[] = [];
    const encoded: (readonly Uint8Array[])[] = [];
    let total = 0;
    for (const { type, message } of messages) {
      const chunks = frames.encode(message);
      const bytes = bytesOf(chunks);
      sent.push({ type, bytes });
      encoded.push(chunks);
      total += bytes;
    }
    const small = smallWrites.admit(total);
    let outcome: PushOutcome | undefined;
    let ended: ((outcome: PushOutcome) => void) | undefined;
    this.#writing = true;
    transport.send(encoded, (result) => {
      if (small) smallWrites.left();
      this.#writing = false;
      if (this.#behind.length > 0) for (const go of this.#behind.splice(0)) go();
      outcome = written(result, sent, started);
      ended?.(outcome);
    });
    if (outcome !== undefined) return outcome;
    return small ? 'sent' : new Promise((resolve) => (ended = resolve));
  }
}
