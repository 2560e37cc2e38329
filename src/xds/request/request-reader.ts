/**
 * Requests out of the bytes of a gRPC stream, however these are cut.
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md (Length-Prefixed-Message)
 */
import { CtlError } from '../../core/errors.ts';
import { MESSAGE_PREFIX_BYTES, prefixError } from '../../grpc/index.ts';
import { type Assembled, type KnownRun, type ListFields, MessageAssembly } from './message-assembly.ts';
import { type Claim, FREE_BYTES, MAX_AHEAD_BYTES, type PerClientQuota } from './receive-memory-quota.ts';

/** How requests of one kind are read. */
export interface RequestFormat<Request> {
  /** Fields of lists that are compared with known ones while they arrive. */
  readonly lists: ListFields;
  /**
   * Decodes a request from its bytes without `known`, which are some of its lists. Keeps nothing of the bytes. Throws
   * CtlError invalid_argument.
   */
  decode(bytes: Buffer, known?: readonly KnownRun[]): Request;
}

export interface RequestSink<Request> {
  message(request: Request): void;
  /**
   * The stream holds something that is refused, and no more messages come. A CtlError (resource_exhausted: the request
   * is larger than may be), or what else {@link RequestFormat.decode} throws.
   */
  refused(error: unknown): void;
}

/**
 * Messages that are put together while reading is paused: a proxy that comes back asks for all its types at once, 100
 * kB and more for each, of which nothing but references to known lists is left. What comes behind them is kept as it
 * is.
 */
const MAX_AHEAD = 8;

/**
 * What is kept of these messages, bytes, before they ask for room: references to lists take none, acknowledgements
 * little.
 */
const FREE_AHEAD_BYTES = 4 * 1024;

/**
 * What is read goes over what may be kept by so much at most, bytes: what a window of the stream lets come before its
 * reader is asked.
 */
const MAX_OVER_BYTES = 512 * 1024;

export class RequestReader<Request> {
  readonly #sink: RequestSink<Request>;
  readonly #format: RequestFormat<Request>;
  readonly #maxBytes: number;
  readonly #room: PerClientQuota | undefined;
  /** Something has changed: `full` may have ended. */
  readonly #changed: () => void;
  readonly #assembly: MessageAssembly;
  /** Bytes of the prefix that have come, the flag and the length in them. */
  #prefixFilled = 0;
  #flag = 0;
  #length = 0;
  /** Of the current message. */
  #size = 0;
  /** Bytes of the current message that have not come yet. */
  #missing = 0;
  #paused = false;
  #refused = false;
  /** What was read while reading was paused. */
  readonly #ahead: Assembled[] = [];
  #aheadBytes = 0;
  #held: Buffer[] = [];
  /** Room for the current message, asked for when much of it has to be kept. */
  #claim: Claim | undefined;
  /** Room for what is read ahead; false: there was none. */
  #aheadQuota: (() => void) | false | undefined;

  /**
   * `maxBytes`: largest message. `room`: left out where messages are so small that they need not ask for any; `changed`
   * is called when it was waited for, and {@link full} may have ended.
   */
  constructor(
    sink: RequestSink<Request>,
    format: RequestFormat<Request>,
    maxBytes: number,
    room?: { readonly of: PerClientQuota; readonly changed: () => void },
  ) {
    this.#sink = sink;
    this.#format = format;
    this.#room = room?.of;
    this.#changed = room?.changed ?? (() => {});
    this.#assembly = new MessageAssembly(format.lists);
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
    this.#requestQuota();
  }

  /**
   * What else comes should wait where it is: there is no room for the message yet, or reading is paused, and has been
   * gone on with for as long as that keeps little.
   */
  get full(): boolean {
    if (!this.#paused) return this.waits;
    return this.#ahead.length >= MAX_AHEAD || this.#aheadQuota === false || this.#keptAhead >= MAX_AHEAD_BYTES;
  }

  /** There is no room for the message yet. */
  get waits(): boolean {
    return this.#claim?.granted === false;
  }

  get #keptAhead(): number {
    return this.#aheadBytes + this.#assembly.kept;
  }

  #requestQuota(): void {
    if (this.#refused || this.#room === undefined) return;
    if (this.#paused && this.#keptAhead > FREE_AHEAD_BYTES) this.#aheadQuota ??= this.#room.ahead() ?? false;
    const { kept } = this.#assembly;
    const overFull = kept > FREE_BYTES + MAX_OVER_BYTES;
    if (this.#missing === 0 || kept <= FREE_BYTES || (this.#paused && !overFull)) return;
    this.#claim ??= this.#room.request(this.#size, {
      granted: () => this.#changed(),
      late: () =>
        this.#refuse(new CtlError('deadline_exceeded', 'a request takes too long to come whole while others wait')),
    });
    // A known list of which another byte comes at last is put together all at once. To have it wait would be to keep
    // all that.
    if (overFull && !this.#claim.granted)
      this.#refuse(new CtlError('unavailable', 'too many large requests, try again later'));
  }

  #endAhead(): void {
    if (typeof this.#aheadQuota === 'function') this.#aheadQuota();
    this.#aheadQuota = undefined;
  }

  /** The stream is over: nothing is kept any more. */
  close(): void {
    this.#refused = true;
    this.#held = [];
    this.#ahead.length = 0;
    this.#claim?.end();
    this.#claim = undefined;
    this.#endAhead();
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
      this.#aheadBytes -= next.kept;
      this.#hand(next);
    }
    const held = this.#held;
    this.#held = [];
    for (const bytes of held) this.take(bytes);
    if (!this.#paused) this.#endAhead();
    this.#requestQuota();
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
    this.#size = length;
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
    const message = this.#assembly.finish();
    this.#claim?.end();
    this.#claim = undefined;
    if (this.#paused) {
      this.#ahead.push({ ...message, bytes: Buffer.from(message.bytes) });
      this.#aheadBytes += message.kept;
    } else this.#hand(message);
  }

  #hand({ bytes, known }: Assembled): void {
    let request: Request;
    try {
      request = this.#format.decode(bytes, known);
    } catch (error) {
      this.#refuse(error);
      return;
    }
    this.#sink.message(request);
  }

  #refuse(error: unknown): void {
    this.close();
    this.#sink.refused(error);
  }
}
