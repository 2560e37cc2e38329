/** An ADS stream as the protocols see it: requests come out of a call's bytes, frames of shared chunks go into it. */

import type { CtlError } from '../../core/errors.ts';
import type { SendResult, StreamCall } from '../../grpc/index.ts';
import { type PerClientQuota, type RequestFormat, RequestReader, type RequestSink } from '../request/index.ts';

/** Who takes the requests of a stream. */
export interface RequestHandler<Request> extends RequestSink<Request> {
  /** The client has said all that it has to say. */
  ended(): void;
}

export interface Transport {
  readonly peer: string;
  /** Starts reading requests. To be called once. */
  read<Request>(format: RequestFormat<Request>, handler: RequestHandler<Request>): void;
  /**
   * Sends gRPC frames, each as chunks; `done` is called once, later or at once: `drained` when the bytes have left for
   * the socket.
   */
  send(frames: readonly (readonly Uint8Array[])[], done: (result: SendResult) => void): void;
  /** Stops and starts reading requests. */
  pause(): void;
  resume(): void;
  /** Ends the stream with an error status, after what was written. */
  fail(error: CtlError): void;
  /** Ends the stream with status OK, after what was written. */
  end(): void;
  /** Tears the stream down without waiting for anything. */
  abort(): void;
  /** Asks the peer to move: no new streams on this connection, which closes when its last stream has ended. */
  retireConnection(): void;
}

/** A transport that can be asked why no request comes. */
export interface ReadingTransport extends Transport {
  /** A request is on its way, and waits for room on our side. */
  readonly waitsForQuota: boolean;
}

export interface TransportLimits {
  /** Largest request, bytes. */
  readonly maxReceiveBytes: number;
  /** For requests that have not come whole. */
  readonly quota: PerClientQuota;
}

class CallTransport implements ReadingTransport {
  readonly peer: string;
  readonly #call: StreamCall;
  readonly #maxReceiveBytes: number;
  readonly #quota: PerClientQuota;
  #reader: Pick<RequestReader<never>, 'full' | 'waitsForQuota' | 'pause' | 'resume'> | undefined;
  #paused = false;
  /** To be told when reading goes on: the client has said all that it has to say. */
  #ended: (() => void) | undefined;

  constructor(call: StreamCall, { maxReceiveBytes, quota }: TransportLimits) {
    this.#call = call;
    this.#maxReceiveBytes = maxReceiveBytes;
    this.#quota = quota;
    this.peer = call.connection.peer;
    call.open();
  }

  read<Request>(format: RequestFormat<Request>, handler: RequestHandler<Request>): void {
    const call = this.#call;
    const quota = { of: this.#quota, changed: () => this.#goOn() };
    const reader = new RequestReader(handler, format, this.#maxReceiveBytes, quota);
    this.#reader = reader;
    call.onClose(() => reader.close());
    call.read({
      data(bytes) {
        if (call.closed) return;
        reader.take(bytes);
        if (reader.full) call.pause();
      },
      ended: () => {
        if (this.#paused) this.#ended = () => handler.ended();
        else handler.ended();
      },
    });
  }

  get waitsForQuota(): boolean {
    return this.#reader?.waitsForQuota === true;
  }

  send(frames: readonly (readonly Uint8Array[])[], done: (result: SendResult) => void): void {
    const [first = []] = frames;
    const chunks = frames.length > 1 ? frames.flat() : first;
    if (chunks.length === 0) done('drained');
    else this.#call.write(chunks, done);
  }

  /**
   * What comes is read on for a while, so that a thousand proxies that come back at once do not leave their lists in
   * memory.
   */
  pause(): void {
    this.#paused = true;
    this.#reader?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#reader?.resume();
    this.#goOn();
    if (this.#paused) return;
    this.#ended?.();
    this.#ended = undefined;
  }

  /** What was held may have had it pause again. */
  #goOn(): void {
    if (this.#reader?.full !== true) this.#call.resume();
  }

  fail(error: CtlError): void {
    this.#call.end(error);
  }

  end(): void {
    this.#call.end();
  }

  abort(): void {
    this.#call.abort();
  }

  retireConnection(): void {
    this.#call.retireConnection();
  }
}

/** The transport of a call, which is opened. */
export function createTransport(call: StreamCall, limits: TransportLimits): ReadingTransport {
  return new CallTransport(call, limits);
}
