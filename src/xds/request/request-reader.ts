/**
 * Reads requests from the bytes of a gRPC stream, however these are cut.
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md (Length-Prefixed-Message)
 */
import { CtlError } from '../../core/errors.ts';
import { MESSAGE_PREFIX_BYTES, prefixError } from '../../grpc/index.ts';
import { type Assembled, type KnownRun, type ListFields, MessageAssembly } from './message-assembly.ts';
import { FREE_BYTES, MAX_AHEAD_BYTES, type PerClientQuota, type Reservation } from './receive-memory-quota.ts';

/** How requests of one kind are read. */
export interface RequestFormat<Request> {
  /** Fields with lists that are compared with known lists while they arrive. */
  readonly lists: ListFields;
  /**
   * Decodes a request from its bytes without the lists in `known`. Keeps no reference to the bytes. Throws CtlError
   * invalid_argument.
   */
  decode(bytes: Buffer, known?: readonly KnownRun[]): Request;
}

export interface RequestSink<Request> {
  message(request: Request): void;
  /**
   * A request is refused, and no more messages follow.
   * @param error a CtlError (resource_exhausted: the request is too large), or what {@link RequestFormat.decode} throws
   */
  refused(error: unknown): void;
}

/**
 * Messages that are assembled while reading is paused: a reconnecting proxy sends a request for each type at once, of
 * 100 kB and more, of which only references to known lists are kept. Bytes after these messages are kept unread.
 */
const MAX_AHEAD = 8;

/**
 * Bytes of these messages that need no reservation; references to lists take no memory, and acknowledgements take
 * little.
 */
const FREE_AHEAD_BYTES = 4 * 1024;

/** Maximum number of bytes by which reading may exceed its limit: a flow-control window of the stream. */
const MAX_OVER_BYTES = 512 * 1024;

export class RequestReader<Request> {
  readonly #sink: RequestSink<Request>;
  readonly #format: RequestFormat<Request>;
  readonly #maxBytes: number;
  readonly #quota: PerClientQuota | undefined;
  /** Called when `full` may have become false. */
  readonly #changed: () => void;
  readonly #assembly: MessageAssembly;
  /** Bytes of the prefix that have arrived, and the flag and the length from them. */
  #prefixFilled = 0;
  #flag = 0;
  #length = 0;
  /** Bytes of the current message. */
  #size = 0;
  /** Bytes of the current message that have not arrived. */
  #missing = 0;
  #paused = false;
  #refused = false;
  /** Messages that were read while reading was paused. */
  readonly #ahead: Assembled[] = [];
  #aheadBytes = 0;
  #unread: Buffer[] = [];
  /** For the current message, once much of it has to be kept. */
  #reservation: Reservation | undefined;
  /** Releases the reservation for what is read ahead; false: it was refused. */
  #aheadReservation: (() => void) | false | undefined;

  /**
   * @param maxBytes largest message
   * @param quota left out where messages are too small to need a reservation; `changed` is called when {@link full} may
   *   have become false
   */
  constructor(
    sink: RequestSink<Request>,
    format: RequestFormat<Request>,
    maxBytes: number,
    quota?: { readonly of: PerClientQuota; readonly changed: () => void },
  ) {
    this.#sink = sink;
    this.#format = format;
    this.#quota = quota?.of;
    this.#changed = quota?.changed ?? (() => {});
    this.#assembly = new MessageAssembly(format.lists);
    this.#maxBytes = maxBytes;
  }

  /** Reads received bytes. No reference to the buffer is kept. */
  take(bytes: Buffer): void {
    for (let at = 0; at < bytes.length && !this.#refused; ) {
      if (this.#paused && this.#ahead.length >= MAX_AHEAD) {
        this.#unread.push(Buffer.from(bytes.subarray(at)));
        return;
      }
      at = this.#prefixFilled < MESSAGE_PREFIX_BYTES ? this.#takePrefix(bytes, at) : this.#takeMessage(bytes, at);
    }
    this.#reserve();
  }

  /**
   * Whether the reader accepts no more bytes: the current message waits for its reservation, or reading is paused and
   * the limit of read-ahead data is reached.
   */
  get full(): boolean {
    if (!this.#paused) return this.waitsForQuota;
    return this.#ahead.length >= MAX_AHEAD || this.#aheadReservation === false || this.#keptAhead >= MAX_AHEAD_BYTES;
  }

  /** The current message waits for its reservation. */
  get waitsForQuota(): boolean {
    return this.#reservation?.granted === false;
  }

  get #keptAhead(): number {
    return this.#aheadBytes + this.#assembly.kept;
  }

  #reserve(): void {
    if (this.#refused || this.#quota === undefined) return;
    if (this.#paused && this.#keptAhead > FREE_AHEAD_BYTES)
      this.#aheadReservation ??= this.#quota.reserveAhead() ?? false;
    const { kept } = this.#assembly;
    const overFull = kept > FREE_BYTES + MAX_OVER_BYTES;
    if (this.#missing === 0 || kept <= FREE_BYTES || (this.#paused && !overFull)) return;
    this.#reservation ??= this.#quota.reserve(this.#size, {
      granted: () => this.#changed(),
      timedOut: () =>
        this.#refuse(
          new CtlError(
            'deadline_exceeded',
            'the request was not completed in time, and other requests wait for its memory',
          ),
        ),
    });
    // If a list only differs from a known one near its end, it is assembled at once: it cannot wait without being kept.
    if (overFull && !this.#reservation.granted)
      this.#refuse(new CtlError('unavailable', 'too many large requests, try again later'));
  }

  #endAhead(): void {
    if (typeof this.#aheadReservation === 'function') this.#aheadReservation();
    this.#aheadReservation = undefined;
  }

  /** The stream is over: drops everything. */
  close(): void {
    this.#refused = true;
    this.#unread = [];
    this.#ahead.length = 0;
    this.#reservation?.end();
    this.#reservation = undefined;
    this.#endAhead();
  }

  /** No message is delivered until `resume`. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    while (!this.#paused) {
      const next = this.#ahead.shift();
      if (next === undefined) break;
      this.#aheadBytes -= next.kept;
      this.#deliver(next);
    }
    const unread = this.#unread;
    this.#unread = [];
    for (const bytes of unread) this.take(bytes);
    if (!this.#paused) this.#endAhead();
    this.#reserve();
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
    this.#reservation?.end();
    this.#reservation = undefined;
    if (this.#paused) {
      this.#ahead.push({ ...message, bytes: Buffer.from(message.bytes) });
      this.#aheadBytes += message.kept;
    } else this.#deliver(message);
  }

  #deliver({ bytes, known }: Assembled): void {
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
