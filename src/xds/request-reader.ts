/**
 * Requests out of the bytes of a gRPC stream, however these are cut.
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md (Length-Prefixed-Message)
 */
import type { CtlError } from '../core/errors.ts';
import { MESSAGE_PREFIX_BYTES, prefixError } from '../grpc/index.ts';
import { type Assembled, type KnownRun, type ListFields, MessageAssembly } from './message-assembly.ts';

export interface RequestSink {
  /** A message: its bytes without the lists that were recognised, valid until this returns, and these, valid as long as they are held. */
  message(bytes: Buffer, known: readonly KnownRun[]): void;
  /** The stream holds something that is refused; no more messages come. */
  refused(error: CtlError): void;
}

/**
 * Messages that are put together while reading is paused: a proxy that comes back asks for all its types at once, 100 kB and more for
 * each, of which nothing but references to known lists is left. What comes behind them is kept as it is.
 */
const MAX_AHEAD = 8;

/** Of these messages, what is kept of each put together, bytes: a node has 2-20 kB. */
const MAX_AHEAD_BYTES = 64 * 1024;

export class RequestReader {
  readonly #sink: RequestSink;
  readonly #maxBytes: number;
  readonly #assembly: MessageAssembly;
  /** Bytes of the prefix that have come, the flag and the length in them. */
  #prefixFilled = 0;
  #flag = 0;
  #length = 0;
  /** Bytes of the current message that have not come yet. */
  #missing = 0;
  #paused = false;
  #refused = false;
  /** What was read while reading was paused. */
  readonly #ahead: Assembled[] = [];
  #aheadBytes = 0;
  #held: Buffer[] = [];

  /** `maxBytes`: largest message. */
  constructor(sink: RequestSink, lists: ListFields, maxBytes: number) {
    this.#sink = sink;
    this.#assembly = new MessageAssembly(lists);
    this.#maxBytes = maxBytes;
  }

  /** Takes what has arrived. Nothing refers to it afterwards: the buffer may be used again. */
  take(bytes: Buffer): void {
    for (let at = 0; at < bytes.length && !this.#refused; ) {
      if (this.#paused && this.#ahead.length >= MAX_AHEAD) {
        this.#held.push(Buffer.from(bytes.subarray(at)));
        return;
      }
      at = this.#prefixFilled < MESSAGE_PREFIX_BYTES ? this.#takePrefix(bytes, at) : this.#takeMessage(bytes, at);
    }
  }

  /** Reading is paused, and has been gone on with for as long as that keeps little: what else comes should wait where it is. */
  get full(): boolean {
    return (
      this.#paused && (this.#ahead.length >= MAX_AHEAD || this.#aheadBytes + this.#assembly.kept >= MAX_AHEAD_BYTES)
    );
  }

  /** No message is handed on until `resume`. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    while (!this.#paused) {
      const next = this.#ahead.shift();
      if (next === undefined) break;
      this.#aheadBytes -= next.bytes.length;
      this.#sink.message(next.bytes, next.known);
    }
    const held = this.#held;
    this.#held = [];
    for (const bytes of held) this.take(bytes);
  }

  #takePrefix(bytes: Buffer, start: number): number {
    let at = start;
    while (at < bytes.length && this.#prefixFilled < MESSAGE_PREFIX_BYTES) {
      const byte = bytes[at++] ?? 0;
      if (this.#prefixFilled++ === 0) this.#flag = byte;
      else this.#length = this.#length * 256 + byte;
    }
    if (this.#prefixFilled === MESSAGE_PREFIX_BYTES) this.#begin(this.#length);
    return at;
  }

  #begin(length: number): void {
    this.#length = 0;
    this.#missing = length;
    const error = prefixError(this.#flag, length, this.#maxBytes);
    if (error !== undefined) {
      this.#refuse(error);
      return;
    }
    this.#assembly.begin(length);
    if (length === 0) this.#done();
  }

  #takeMessage(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#missing);
    this.#assembly.take(bytes, at, end);
    this.#missing -= end - at;
    if (this.#missing === 0) this.#done();
    return end;
  }

  #done(): void {
    this.#prefixFilled = 0;
    const { bytes, known } = this.#assembly.finish();
    if (this.#paused) {
      this.#ahead.push({ bytes: Buffer.from(bytes), known });
      this.#aheadBytes += bytes.length;
    } else this.#sink.message(bytes, known);
  }

  #refuse(error: CtlError): void {
    this.#refused = true;
    this.#held = [];
    this.#sink.refused(error);
  }
}
