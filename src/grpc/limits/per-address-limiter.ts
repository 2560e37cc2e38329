/**
 * Limits something that all clients share, such as connections, streams, watches or memory, so that no client address
 * uses up all of it before clients are authenticated. One address may have most, because thousands of proxies can be
 * behind one address translation, but some is always left for other addresses. Clients behind one address are not
 * distinguished: where that matters, they have to use the encrypted port.
 */

/** Units of one address for each free unit: one address has at most 4 of 5. */
const PER_FREE = 4;

export class PerAddressLimiter {
  readonly #max: number;
  readonly #ofAddress = new Map<string, number>();
  #all = 0;

  /** @param max units of all addresses together; Infinity: no limit */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Takes one unit or several.
   * @returns releases them; further calls have no effect. Undefined when this address cannot have as many
   */
  enter(remoteAddress: string, units = 1): (() => void) | undefined {
    const address = networkOf(remoteAddress);
    const used = this.#ofAddress.get(address) ?? 0;
    // The result is the same as when they are taken one by one.
    const last = units - 1;
    if (used + last >= PER_FREE * (this.#max - this.#all - last)) return undefined;
    this.#all += units;
    this.#ofAddress.set(address, used + units);
    let released = false;
    return () => {
      if (!released) this.#release(address, units);
      released = true;
    };
  }

  #release(address: string, units: number): void {
    this.#all -= units;
    const used = (this.#ofAddress.get(address) ?? 0) - units;
    if (used > 0) this.#ofAddress.set(address, used);
    else this.#ofAddress.delete(address);
  }
}

/**
 * The address that clients are counted by: an IPv4 address, also as a part of an IPv6 address; of other IPv6 addresses
 * the first 64 bits, because hosts choose the others freely.
 */
export function networkOf(address: string): string {
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1);
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  return [...left, ...Array<string>(zeros).fill('0'), ...right].slice(0, 4).join(':');
}
