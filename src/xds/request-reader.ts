/**
 * Requests out of the bytes of a gRPC stream, however these are cut. It stands in for the reader of grpc-js, which puts each message
 * together in a buffer of its own.
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md (Length-Prefixed-Message)
 */
import { CtlError } from '../core/errors.ts';
import { FRAME_PREFIX_BYTES } from './codec.ts';
import { type KnownRun, type ListFields, MessageAssembly } from './message-assembly.ts';

export interface RequestSink {
  /** A message: its bytes without the lists that were recognised, and these. Both are valid for as long as they are held. */
  message(bytes: Buffer, known: readonly KnownRun[]): void;
  /** The stream holds something that is refused; no more messages come. */
  refused(error: CtlError): void;
}

export class RequestReader {
  readonly #sink: RequestSink;
  readonly #lists: ListFields;
  readonly #maxBytes: number;
  readonly #prefix = Buffer.alloc(FRAME_PREFIX_BYTES);
  #prefixFilled = 0;
  /** Bytes of the current message that have not come yet. */
  #missing = 0;
  /** The current message, when it comes in several pieces. */
  #assembly: MessageAssembly | undefined;
  #paused = false;
  #refused = false;
  /** What had been read when reading was paused. */
  #held: Buffer[] = [];

  /** `maxBytes`: largest message. */
  constructor(sink: RequestSink, lists: ListFields, maxBytes: number) {
    this.#sink = sink;
    this.#lists = lists;
    this.#maxBytes = maxBytes;
  }

  /** Takes what has arrived; it must not change afterwards. */
  take(bytes: Buffer): void {
    for (let at = 0; at < bytes.length && !this.#refused; ) {
      if (this.#paused) {
        this.#held.push(bytes.subarray(at));
        return;
      }
      at = this.#prefixFilled < FRAME_PREFIX_BYTES ? this.#takePrefix(bytes, at) : this.#takeMessage(bytes, at);
    }
  }

  /** No message is handed on until `resume`. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    const held = this.#held;
    this.#held = [];
    for (const bytes of held) this.take(bytes);
  }

  #takePrefix(bytes: Buffer, at: number): number {
    const whole = at + FRAME_PREFIX_BYTES;
    if (this.#prefixFilled === 0 && whole <= bytes.length) {
      this.#prefixFilled = FRAME_PREFIX_BYTES;
      this.#begin(bytes, at);
      return whole;
    }
    const end = Math.min(bytes.length, at + FRAME_PREFIX_BYTES - this.#prefixFilled);
    bytes.copy(this.#prefix, this.#prefixFilled, at, end);
    this.#prefixFilled += end - at;
    if (this.#prefixFilled === FRAME_PREFIX_BYTES) this.#begin(this.#prefix, 0);
    return end;
  }

  #begin(prefix: Buffer, at: number): void {
    const length = prefix.readUInt32BE(at + 1);
    // https://github.com/grpc/grpc/blob/master/doc/compression.md: the flag without an encoding is an internal error.
    if (prefix.readUInt8(at) !== 0)
      this.#refuse(new CtlError('internal', 'compressed message, but the call has no message encoding'));
    else if (length > this.#maxBytes)
      this.#refuse(
        new CtlError('resource_exhausted', `received message larger than max (${length} vs ${this.#maxBytes})`),
      );
    else if (length === 0) this.#done(Buffer.alloc(0), []);
    else this.#missing = length;
  }

  #takeMessage(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#missing);
    const piece = bytes.subarray(at, end);
    if (this.#assembly === undefined && piece.length === this.#missing) {
      this.#done(piece, []);
      return end;
    }
    this.#assembly ??= new MessageAssembly(this.#lists, this.#missing);
    this.#assembly.take(piece);
    this.#missing -= piece.length;
    if (this.#missing > 0) return end;
    const { bytes: rest, known } = this.#assembly.finish();
    this.#assembly = undefined;
    this.#done(rest, known);
    return end;
  }

  #done(bytes: Buffer, known: readonly KnownRun[]): void {
    this.#prefixFilled = 0;
    this.#sink.message(bytes, known);
  }

  #refuse(error: CtlError): void {
    this.#refused = true;
    this.#held = [];
    this.#sink.refused(error);
  }
}
