/**
 * Something that there is so much of for all clients together: connections, streams, watches, memory. Whoever asks
 * first could take all of it before anybody has said who he is, and leave nothing to who comes later. One address may
 * hold most, for thousands of proxies can come from behind one address translation, but never so much that nothing is
 * left for other addresses. Clients behind the same address are not told apart: where that is not enough, they have to
 * come encrypted.
 */

/** Places of one address for each that is still free: so at most 4 of 5 are of one address. */
const PER_FREE = 4;

export class PerAddressLimiter {
  readonly #max: number;
  readonly #ofAddress = new Map<string, number>();
  #all = 0;

  /** @param max places of all addresses together; Infinity: no limit */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Takes a place, or several.
   * @returns what to call, any number of times, when they are free again; undefined when there are not so many for this
   * address
   */
  enter(remoteAddress: string, places = 1): (() => void) | undefined {
    const address = networkOf(remoteAddress);
    const held = this.#ofAddress.get(address) ?? 0;
    // As if they were taken one by one.
    const last = places - 1;
    if (held + last >= PER_FREE * (this.#max - this.#all - last)) return undefined;
    this.#all += places;
    this.#ofAddress.set(address, held + places);
    let left = false;
    return () => {
      if (!left) this.#leave(address, places);
      left = true;
    };
  }

  #leave(address: string, places: number): void {
    this.#all -= places;
    const held = (this.#ofAddress.get(address) ?? 0) - places;
    if (held > 0) this.#ofAddress.set(address, held);
    else this.#ofAddress.delete(address);
  }
}

/**
 * What counts as one address: one of IPv4, also where it stands in one of IPv6; of IPv6 the first 64 bits, for the
 * others everyone chooses for himself.
 */
export function networkOf(address: string): string {
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1);
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  return [...left, ...Array<string>(zeros).fill('0'), ...right].slice(0, 4).join(':');
}
