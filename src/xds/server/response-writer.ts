/**
 * Writes the responses of one stream: one push after the other, because their slices must not interleave. A response
 * counts as sent when its bytes have been written to the socket. A push ends sooner, so that a client that reads slowly
 * does not occupy a slot of the push queue.
 */

import type { XdsType } from '../../core/xds-types.ts';
import type { SendResult } from '../../grpc/index.ts';
import type { PushOutcome } from '../../push/index.ts';
import type { Outgoing } from '../protocol/index.ts';
import type { StreamFrames } from './compression/stream-frames.ts';
import type { CallerBytes } from './limits/unsent-bytes.ts';
import type { Transport } from './transport.ts';

/**
 * A push of up to this many bytes ends at once: a changed endpoint is a kilobyte for each of a thousand proxies. A
 * larger one ends when its bytes have been written, at the latest after one turn of the event loop, so that the next
 * pushes do not begin before the sockets have accepted as much as they can.
 */
const SMALL_BYTES = 2048;

/** A response that was written. */
export interface WrittenFrame {
  readonly type: XdsType;
  /** Length of the message before compression, with its prefix. */
  readonly bytes: number;
  /** Length of the message as it was sent; undefined where it was not compressed. */
  readonly compressed: number | undefined;
}

export interface ResponseWriterDeps {
  readonly transport: Transport;
  readonly frames: StreamFrames;
  /** The memory of responses that have not left. */
  readonly unsent: CallerBytes;
  /** The bytes have left for the socket, or cannot. Returns the outcome of the push; never throws. */
  readonly written: (result: SendResult, frames: readonly WrittenFrame[], started: number) => PushOutcome;
}

export class ResponseWriter {
  readonly #deps: ResponseWriterDeps;
  /** Whether a write is in progress, whether or not its push has ended. There is only one at a time. */
  #writing = false;
  #left: (() => void) | undefined;

  constructor(deps: ResponseWriterDeps) {
    this.#deps = deps;
  }

  /** Whether a response is being written: the next one has to wait. */
  get busy(): boolean {
    return this.#writing;
  }

  /** Resolves when all bytes have been written to the socket or dropped. */
  idle(): Promise<void> {
    return this.#writing ? new Promise((resolve) => (this.#left = resolve)) : Promise.resolve();
  }

  /**
   * Writes responses; not to be called while the writer is busy.
   * @param started when the push began
   */
  write(messages: readonly Outgoing[], started: number): PushOutcome | Promise<PushOutcome> {
    const { transport, frames, unsent, written } = this.#deps;
    const sent: WrittenFrame[] = [];
    const encoded: (readonly Uint8Array[])[] = [];
    let total = 0;
    for (const message of messages) {
      const { chunks, bytes, compressed } = frames.encode(message);
      sent.push({ type: message.type, bytes, compressed });
      encoded.push(chunks);
      total += compressed ?? bytes;
    }
    const [first = []] = encoded;
    const chunks = encoded.length > 1 ? encoded.flat() : first;
    const end = unsent.add(chunks, transport.copiedBytes(total));
    let outcome: PushOutcome | undefined;
    let ended: ((outcome: PushOutcome) => void) | undefined;
    this.#writing = true;
    transport.send(chunks, (result) => {
      end();
      this.#writing = false;
      outcome = written(result, sent, started);
      this.#left?.();
      this.#left = undefined;
      ended?.(outcome);
    });
    if (outcome !== undefined) return outcome;
    if (total <= SMALL_BYTES) return 'sent';
    return new Promise((resolve) => {
      const turn = setImmediate(resolve, 'sent');
      ended = (late) => {
        clearImmediate(turn);
        resolve(late);
      };
    });
  }
}
