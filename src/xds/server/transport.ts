/** The transport of an ADS stream: reads requests from the bytes of a gRPC call, and writes frames of shared chunks. */

import type { CtlError } from '../../core/errors.ts';
import { copiedBytes, type MessageEncoding, type SendResult, type StreamCall } from '../../grpc/index.ts';
import { type PerClientQuota, type RequestFormat, RequestReader, type RequestSink } from '../request/index.ts';

/** Receives the requests of a stream. */
export interface RequestHandler<Request> extends RequestSink<Request> {
  /** The client has half-closed the stream. */
  ended(): void;
}

export interface Transport {
  readonly peer: string;
  /** Starts reading requests. To be called once. */
  read<Request>(format: RequestFormat<Request>, handler: RequestHandler<Request>): void;
  /**
   * Writes gRPC frames, given as chunks. `done` is called once, later or immediately: `drained` when the bytes have
   * been handed to the socket.
   */
  send(chunks: readonly Uint8Array[], done: (result: SendResult) => void): void;
  /** Maximum additional memory, in bytes, of a write of this size until it is sent. */
  copiedBytes(bytes: number): number;
  /** Stops and resumes reading requests. */
  pause(): void;
  resume(): void;
  /** Ends the stream with an error status, after all writes. */
  fail(error: CtlError): void;
  /** Ends the stream with status OK, after all writes. */
  end(): void;
  /** Resets the stream without waiting for writes. */
  abort(): void;
  /** Asks the peer to use another connection: this one takes no new streams, and closes after its last stream. */
  retireConnection(): void;
}

/** A transport that reports why no request arrives. */
export interface ReadingTransport extends Transport {
  /** A request has arrived in part and waits for its memory reservation. */
  readonly waitsForQuota: boolean;
}

export interface TransportOptions {
  /** Largest request, bytes. */
  readonly maxReceiveBytes: number;
  /** For incomplete requests. */
  readonly quota: PerClientQuota;
  /** Of messages whose compressed flag is set; undefined: there are none. */
  readonly encoding?: MessageEncoding | undefined;
}

class CallTransport implements ReadingTransport {
  readonly peer: string;
  readonly #call: StreamCall;
  readonly #maxReceiveBytes: number;
  readonly #quota: PerClientQuota;
  #reader: Pick<RequestReader<never>, 'full' | 'waitsForQuota' | 'pause' | 'resume'> | undefined;
  #paused = false;
  /** The client has half-closed the stream: to be called when reading is resumed. */
  #ended: (() => void) | undefined;

  constructor(call: StreamCall, { maxReceiveBytes, quota, encoding }: TransportOptions) {
    this.#call = call;
    this.#maxReceiveBytes = maxReceiveBytes;
    this.#quota = quota;
    this.peer = call.connection.peer;
    call.open(encoding);
  }

  read<Request>(format: RequestFormat<Request>, handler: RequestHandler<Request>): void {
    const call = this.#call;
    const quota = { of: this.#quota, changed: () => this.#resumeCall() };
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

  send(chunks: readonly Uint8Array[], done: (result: SendResult) => void): void {
    if (chunks.length === 0) done('drained');
    else this.#call.write(chunks, done);
  }

  copiedBytes(bytes: number): number {
    return copiedBytes(bytes, this.#call.connection);
  }

  /**
   * A limited number of bytes is still read and assembled while reading is paused, so that the lists of a thousand
   * proxies that reconnect at once do not wait in memory.
   */
  pause(): void {
    this.#paused = true;
    this.#reader?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#reader?.resume();
    this.#resumeCall();
    if (this.#paused) return;
    this.#ended?.();
    this.#ended = undefined;
  }

  /** Delivering deferred requests may have paused the stream again. */
  #resumeCall(): void {
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

/** Opens a call and makes its transport. */
export function createTransport(call: StreamCall, options: TransportOptions): ReadingTransport {
  return new CallTransport(call, options);
}
