/**
 * Nonces of one stream: `<snapshot version>-<count>`, the count beginning anew with each version. So streams that have come at different
 * times, and have been sent more or less before, give a response of the same snapshot the same nonce, and it is the same bytes for all.
 */

/** Base of the count. */
const RADIX = 36;

/** The last text that was made: of thousands of streams that are told of a change, nearly all need the same. */
const last = { version: -1, count: -1, text: '' };

function textOf(version: number, count: number): string {
  if (last.version === version && last.count === count) return last.text;
  last.version = version;
  last.count = count;
  last.text = `${version}-${count.toString(RADIX)}`;
  return last.text;
}

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
    return textOf(this.#version, this.#count);
  }

  /** The last nonce was sent. */
  used(): void {
    this.#count++;
  }
}
