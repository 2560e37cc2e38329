/**
 * A tar.gz archive that is written file by file (ustar,
 * https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html#tag_20_94_13_06), so that only one of its files
 * is in memory.
 */
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { messageOf } from '../../core/errors.ts';
import { unavailable } from '../errors.ts';

const BLOCK = 512;
/** Bytes of a name in the header. */
const MAX_NAME = 100;

export class Archive {
  readonly #gzip = createGzip();
  readonly #written: Promise<void>;
  readonly #seconds: number;

  /** Rejects with CtlError `unavailable` when the file exists or cannot be written. Only its owner may read it. */
  static async create(path: string, seconds: number): Promise<Archive> {
    const file = createWriteStream(path, { flags: 'wx', mode: 0o600 });
    await once(file, 'open').catch((error: unknown) => {
      throw unavailable(`cannot write ${path}: ${messageOf(error)}`);
    });
    return new Archive(file, seconds);
  }

  private constructor(file: WriteStream, seconds: number) {
    this.#written = pipeline(this.#gzip, file);
    // Reported by `end`.
    this.#written.catch(() => {});
    this.#seconds = seconds;
  }

  /** @param name a relative path of ASCII characters */
  async add(name: string, content: Uint8Array): Promise<void> {
    await this.#write(header(name, content.length, this.#seconds));
    await this.#write(content);
    await this.#write(new Uint8Array(-content.length & (BLOCK - 1)));
  }

  async end(): Promise<void> {
    await this.#write(new Uint8Array(2 * BLOCK));
    this.#gzip.end();
    await this.#written;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    if (!this.#gzip.write(bytes)) await Promise.race([once(this.#gzip, 'drain'), this.#written]);
  }
}

function header(name: string, size: number, seconds: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number): void => {
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1');
  };
  block.write(name.slice(0, MAX_NAME), 0, 'latin1');
  octal(0o600, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(seconds, 136, 12);
  // The checksum is computed with spaces in its place.
  block.write('        0ustar\x0000', 148, 'latin1');
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
