/**
 * Waits until a client has sent something, before a TLS handshake begins: a client that sends nothing takes no slot,
 * and one that gives up while it waits is noticed.
 *
 * It also saves memory. OpenSSL's input of a connection is a buffer whose size Node chooses at its first bytes and
 * keeps: 64 KiB when they come from the socket (the size of any read), 1 KiB and later 16 KiB when they were read
 * before (`NodeBIO` in src/crypto/crypto_bio.cc of Node.js).
 */
import type { Socket } from 'node:net';
import { ByteAccumulator } from '../buffers/byte-accumulator.ts';

/** More than the first flight of any TLS client: one record, which has at most 16 KiB of content. */
const MAX_BYTES = 20 * 1024;

export class FirstBytes {
  readonly #socket: Socket;
  readonly #arrived: () => void;
  readonly #bytes = new ByteAccumulator();

  /** @param arrived called once */
  constructor(socket: Socket, arrived: () => void) {
    this.#socket = socket;
    this.#arrived = arrived;
    socket.on('readable', this.#read);
  }

  get some(): boolean {
    return this.#bytes.length > 0;
  }

  readonly #read = (): void => {
    const none = !this.some;
    // At the end of the client's side, reading ends the socket.
    for (let piece = this.#socket.read(); piece !== null; piece = this.#socket.read()) this.#bytes.add(piece);
    if (this.#bytes.length > MAX_BYTES) this.#socket.destroy();
    else if (none && this.some) this.#arrived();
  };

  /** Stops reading, and returns the bytes to the socket for its next reader. */
  putBack(): void {
    this.#socket.off('readable', this.#read);
    if (this.some) this.#socket.unshift(this.#bytes.take());
  }
}
