/**
 * Waits until a client has sent its first TLS record, before a TLS handshake begins: a client that sends nothing, or
 * only a part, takes no slot, and a client that disconnects while it waits is noticed.
 *
 * It also saves memory. Node sizes OpenSSL's input buffer when the first bytes arrive, and keeps that size: 64 KiB if
 * Node reads them from the socket itself (the size of any read), or 1 KiB (later 16 KiB) if they were already read
 * (`NodeBIO` in src/crypto/crypto_bio.cc of Node.js).
 */
import type { Socket } from 'node:net';
import { ByteAccumulator } from '../buffers/byte-accumulator.ts';

/** More than the first flight of any TLS client: one record, which has at most 16 KiB of content. */
const MAX_BYTES = 20 * 1024;

/** A TLSPlaintext record (RFC 8446, section 5.1): type, version, length of the content, content. */
const HEADER_BYTES = 5;
const TYPE_HANDSHAKE = 22;
const MAJOR_VERSION = 3;
const MAX_CONTENT_BYTES = 2 ** 14;

export interface FirstBytesListener {
  /** The first record is complete. Called once. */
  arrived(): void;
  /** The client has sent something else, or too much. The socket is destroyed afterwards. */
  invalid(): void;
}

export class FirstBytes {
  readonly #socket: Socket;
  readonly #listener: FirstBytesListener;
  readonly #bytes = new ByteAccumulator();
  #complete = false;

  constructor(socket: Socket, listener: FirstBytesListener) {
    this.#socket = socket;
    this.#listener = listener;
    socket.on('readable', this.#read);
  }

  /** The first record has arrived. */
  get complete(): boolean {
    return this.#complete;
  }

  readonly #read = (): void => {
    // Once the client has closed its side, this read ends the socket.
    for (let piece = this.#socket.read(); piece !== null; piece = this.#socket.read()) this.#bytes.add(piece);
    const recordBytes = firstRecordBytes(this.#bytes.view());
    if (recordBytes === undefined || this.#bytes.length > MAX_BYTES) {
      this.#listener.invalid();
      this.#socket.destroy();
    } else if (!this.#complete && this.#bytes.length >= recordBytes) {
      this.#complete = true;
      this.#listener.arrived();
    }
  };

  /** Stops reading, and returns the bytes to the socket for its next reader. */
  putBack(): void {
    this.#socket.off('readable', this.#read);
    if (this.#bytes.length > 0) this.#socket.unshift(this.#bytes.take());
  }
}

/** Length of the first record, as far as it is known; undefined when it is not a handshake record. */
function firstRecordBytes(bytes: Buffer): number | undefined {
  const [type = TYPE_HANDSHAKE, major = MAJOR_VERSION] = bytes;
  if (type !== TYPE_HANDSHAKE || major !== MAJOR_VERSION) return undefined;
  if (bytes.length < HEADER_BYTES) return HEADER_BYTES;
  const content = bytes.readUInt16BE(HEADER_BYTES - 2);
  return content > 0 && content <= MAX_CONTENT_BYTES ? HEADER_BYTES + content : undefined;
}
