/**
 * Refuses bytes that are not UTF-8. Decoding would replace invalid bytes by U+FFFD, so that a name in another encoding
 * would silently become a different name.
 */
import { isUtf8 } from 'node:buffer';

/** Bytes that are not UTF-8. */
export class NotUtf8 extends Error {
  /** 1-based line of the first invalid byte. */
  readonly line: number;

  constructor(line: number) {
    super('expected UTF-8: some bytes are not valid');
    this.line = line;
  }
}

/** The replacement for bytes that are not UTF-8; a valid string may contain it as well. */
const REPLACEMENT = '\ufffd';
const NEWLINE = 0x0a;

/** Decodes the bytes. Throws NotUtf8. */
export function decodeUtf8(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw new NotUtf8(faultyLine(bytes));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}

/**
 * Checks a string that was decoded as UTF-8 by faster means than decodeUtf8; `bytes` is called only if the string has a
 * replacement character. Throws NotUtf8.
 */
export function checkDecoded(text: string, bytes: () => Uint8Array): string {
  return text.includes(REPLACEMENT) ? decodeUtf8(bytes()) : text;
}

/** The byte of a newline is never part of another character in UTF-8, so each line can be examined separately. */
function faultyLine(bytes: Uint8Array): number {
  let line = 1;
  for (let from = 0; ; line++) {
    const newline = bytes.indexOf(NEWLINE, from);
    if (newline < 0 || !isUtf8(bytes.subarray(from, newline))) return line;
    from = newline + 1;
  }
}
