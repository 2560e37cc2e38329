/**
 * Nonces of one stream: `<snapshot version>-<count>`, the count beginning anew with each version. So streams that have
 * come at different times, and have been sent more or less before, give a response of the same snapshot the same nonce,
 * and it is the same bytes for all.
 */

/** Base of the count. */
const RADIX = 36;

export class Nonces {
  /** The newest version so far: what a proxy is brought to may fall back, its nonces never come again. */
  #version = 0;
  #count = 1;

  /** The nonce of the next response, about this version. */
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
