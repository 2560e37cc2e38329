/**
 * Writes the responses of one stream: one push after the other, because their slices must not interleave. A response
 * counts as sent when its bytes have been written to the socket. A push ends sooner, so that a client that reads slowly
 * does not occupy a slot of the push queue.
 */

import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { SendResult } from '../../grpc/index.ts';
import type { PushOutcome } from '../../push/index.ts';
import type { Outgoing } from '../protocol/index.ts';
import type { CompressedBodies } from './compression/compressed-bodies.ts';
import { compressResponse } from './encode-response.ts';
import type { CallerBytes } from './limits/unsent-bytes.ts';
import type { RecentFrames } from './recent-frames.ts';
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
  /** Length of the message, with its prefix. */
  readonly bytes: number;
  /** The same after compression; undefined for a message that is sent as it is. */
  readonly compressed: number | undefined;
}

export interface ResponseWriterDeps {
  readonly transport: Transport;
  readonly frames: RecentFrames;
  /** Undefined for a client that does not accept compressed messages. */
  readonly compressed: CompressedBodies | undefined;
  /** The memory of responses that have not left. */
  readonly unsent: CallerBytes;
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
   * Secrets are not compressed: the length would tell of their content, and the next proxy has others.
   * Source: RFC 7457 section 2.6 (CRIME)
   */
  #encode({ type, message }: Outgoing): { readonly chunks: readonly Uint8Array[]; readonly frame: WrittenFrame } {
    const { compressed, frames } = this.#deps;
    const short = compressed && !XDS[type].confidential ? compressResponse(message, compressed) : undefined;
    if (short !== undefined) {
      const { chunks, bytes } = short;
      return { chunks, frame: { type, bytes, compressed: bytesOf(chunks) } };
    }
    const chunks = frames.encode(message);
    return { chunks, frame: { type, bytes: bytesOf(chunks), compressed: undefined } };
  }

  /**
   * Writes responses; not to be called while the writer is busy.
   * @param started when the push began
   */
  write(messages: readonly Outgoing[], started: number): PushOutcome | Promise<PushOutcome> {
    const { transport, unsent, written } = this.#deps;
    const sent: WrittenFrame[] = [];
    const encoded: (readonly Uint8Array[])[] = [];
    let total = 0;
    for (const outgoing of messages) {
      const { chunks, frame } = this.#encode(outgoing);
      sent.push(frame);
      encoded.push(chunks);
      total += frame.compressed ?? frame.bytes;
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
