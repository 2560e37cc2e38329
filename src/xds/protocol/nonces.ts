/**
 * Nonces of one stream: `<snapshot version>-<count>`. The count starts at 1 with each version, so that a response of
 * one snapshot has the same nonce, and so the same bytes, on streams of different age.
 */

/** Base of the count. */
const RADIX = 36;

export class Nonces {
  /** The highest version so far: a later response may be of an older snapshot, but no nonce is used twice. */
  #version = 0;
  #count = 1;

  /** The nonce of the next response, for this snapshot. */
  next(version: number): string {
    if (version > this.#version) {
      this.#version = version;
      this.#count = 1;
    }
    return `${this.#version}-${this.#count.toString(RADIX)}`;
  }

  /** The last nonce was sent. */
  used(): void {
    this.#count++;
  }
}
