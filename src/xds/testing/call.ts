/**
 * Test support: a call without a connection. Tests feed it what a client sends, and see what the server did with it.
 */
import type { CtlError } from '../../core/errors.ts';
import type { CallReader, ConnectionInfo, MessageEncoding, SendResult, StreamCall } from '../../grpc/index.ts';

export class FakeCall implements StreamCall {
  readonly path = '/test/Stream';
  readonly metadata = { get: () => [] };
  readonly connection: ConnectionInfo;
  /** Methods that were called, in order. */
  readonly done: string[] = [];
  /** Writes that have not ended. */
  readonly writes: { readonly chunks: readonly Uint8Array[]; readonly end: (result: SendResult) => void }[] = [];
  closed = false;
  paused = false;
  readonly #listeners: (() => void)[] = [];
  readonly #waiting: (Buffer | 'end')[] = [];
  #reader: CallReader | undefined;

  /** @param address the client's address */
  constructor(address = '10.0.0.9') {
    this.connection = { peer: `${address}:1234`, address, secured: undefined };
  }

  /** The client sends these bytes. Their buffer is overwritten as soon as they are read. */
  feed(bytes: Uint8Array): void {
    this.#waiting.push(Buffer.from(bytes));
    this.#flush();
  }

  /** The client half-closes the stream. */
  halfClose(): void {
    this.#waiting.push('end');
    this.#flush();
  }

  /** The call is over, as when the client cancels. */
  close(): void {
    this.closed = true;
    for (const listener of this.#listeners.splice(0)) listener();
    for (const { end } of this.writes.splice(0)) end('closed');
  }

  #flush(): void {
    while (!this.paused && this.#reader !== undefined) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      if (next === 'end') {
        this.#reader.ended();
        continue;
      }
      this.#reader.data(next);
      next.fill(0xff);
    }
  }

  open(encoding?: MessageEncoding): void {
    this.done.push(encoding === undefined ? 'open' : `open ${encoding}`);
  }

  read(reader: CallReader): void {
    this.#reader = reader;
    this.#flush();
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    this.#flush();
  }

  write(chunks: readonly Uint8Array[], done: (result: SendResult) => void): void {
    if (this.closed) done('closed');
    else this.writes.push({ chunks, end: done });
  }

  end(error?: CtlError): void {
    this.done.push(error === undefined ? 'end' : `end ${error.code}: ${error.message}`);
  }

  reply(message: readonly Uint8Array[]): void {
    this.write(message, () => {});
    this.end();
  }

  abort(): void {
    this.done.push('abort');
    this.close();
  }

  retireConnection(): void {
    this.done.push('retire');
  }

  isOf(): void {}

  onClose(listener: () => void): void {
    if (this.closed) listener();
    else this.#listeners.push(listener);
  }
}
