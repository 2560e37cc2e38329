/**
 * Calls with one request and one response. Requests are assembled before their callers are authenticated, so the bytes
 * of a request, the incomplete requests of a connection, and the time are limited.
 */
import { CtlError } from '../core/errors.ts';
import { ByteAccumulator } from './buffers/byte-accumulator.ts';
import { checkedLength, MESSAGE_PREFIX_BYTES, prefixed } from './messages.ts';
import type { CallReader, GrpcObserver, StreamCall, UnaryMethod } from './types.ts';

export interface UnaryLimits {
  /** A request that is not complete after this time, ms, is refused. */
  readonly requestTimeoutMs: number;
  /** Maximum number of incomplete requests on one connection. */
  readonly maxIncomplete: number;
}

/** Serves unary methods. */
export class UnaryCalls {
  readonly #limits: UnaryLimits;
  readonly #observer: GrpcObserver;
  /** Number of incomplete requests, by connection. */
  readonly #incomplete = new WeakMap<object, number>();

  constructor(limits: UnaryLimits, observer: GrpcObserver) {
    this.#limits = limits;
    this.#observer = observer;
  }

  serve(call: StreamCall, method: UnaryMethod): void {
    const { connection } = call;
    const before = this.#incomplete.get(connection) ?? 0;
    if (before >= this.#limits.maxIncomplete) {
      this.#refuse(call, new CtlError('resource_exhausted', 'too many incomplete requests on one connection'));
      return;
    }
    this.#incomplete.set(connection, before + 1);
    const late = setTimeout(
      () => this.#refuse(call, new CtlError('deadline_exceeded', 'the request was not completed')),
      this.#limits.requestTimeoutMs,
    ).unref();
    let settled = false;
    const settle = (): void => {
      if (settled) return;
      settled = true;
      clearTimeout(late);
      this.#incomplete.set(connection, (this.#incomplete.get(connection) ?? 1) - 1);
    };
    call.onClose(settle);
    const request = new RequestAssembly(method.maxReceiveBytes, (error) => {
      if (error.code === 'resource_exhausted') this.#observer.requestTooLarge(connection.peer, error.message);
      this.#refuse(call, error);
    });
    call.read({
      data: (bytes) => request.data(bytes),
      ended: () => {
        settle();
        const message = request.finish();
        if (message !== undefined) void this.#respond(call, method, message);
      },
    });
  }

  #refuse(call: StreamCall, error: CtlError): void {
    this.#observer.refused(call.connection.peer, error);
    call.end(error);
  }

  async #respond(call: StreamCall, { handler }: UnaryMethod, request: Buffer): Promise<void> {
    const { path, metadata, connection } = call;
    try {
      const answer = await handler({ path, metadata, connection, request });
      call.reply([prefixed(answer)]);
    } catch (error) {
      if (!(error instanceof CtlError)) this.#observer.internalError(error, connection.peer);
      call.end(error instanceof CtlError ? error : new CtlError('internal', 'internal error'));
    }
  }
}

/** Assembles exactly one message. */
class RequestAssembly implements Pick<CallReader, 'data'> {
  readonly #maxBytes: number;
  readonly #refuse: (error: CtlError) => void;
  readonly #gathered = new ByteAccumulator();
  /** Length with the prefix; undefined until the prefix has arrived. */
  #length: number | undefined;
  #refused = false;

  constructor(maxBytes: number, refuse: (error: CtlError) => void) {
    this.#maxBytes = maxBytes;
    this.#refuse = refuse;
  }

  data(bytes: Buffer): void {
    if (this.#refused) return;
    this.#gathered.add(bytes);
    try {
      if (this.#length === undefined && this.#gathered.length >= MESSAGE_PREFIX_BYTES)
        this.#length = MESSAGE_PREFIX_BYTES + checkedLength(this.#gathered.view(), this.#maxBytes);
      if (this.#length !== undefined && this.#gathered.length > this.#length)
        throw new CtlError('internal', 'more than one message in a unary call');
    } catch (error) {
      this.#fail(error);
    }
  }

  /** The message; undefined if it was refused, which includes an incomplete message. */
  finish(): Buffer | undefined {
    if (this.#refused) return undefined;
    if (this.#length === undefined || this.#gathered.length < this.#length) {
      this.#fail(new CtlError('internal', 'the call ended before its message'));
      return undefined;
    }
    return this.#gathered.take().subarray(MESSAGE_PREFIX_BYTES);
  }

  #fail(error: unknown): void {
    this.#refused = true;
    this.#gathered.take();
    if (!(error instanceof CtlError)) throw error;
    this.#refuse(error);
  }
}
