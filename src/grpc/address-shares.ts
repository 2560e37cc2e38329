/**
 * Something that there is so much of for all clients together: connections, streams, watches. Whoever asks first would get all of it, and
 * who comes later nothing, though one of them has said who he is. One address may hold most, for thousands of proxies can come from behind
 * one address translation, but never so much that nothing is left for other addresses. Clients behind the same address are not told apart:
 * where that is not enough, they have to come encrypted.
 */

/** Places of one address for each that is still free: so at most 4 of 5 are of one address. */
const PER_FREE = 4;

export class AddressShares {
  readonly #max: number;
  readonly #ofAddress = new Map<string, number>();
  #all = 0;

  /** @param max places of all addresses together; Infinity: no limit */
  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a place. @returns what to call, any number of times, when it is free again; undefined when there is none for this address */
  enter(remoteAddress: string): (() => void) | undefined {
    const address = placeOf(remoteAddress);
    const held = this.#ofAddress.get(address) ?? 0;
    if (held >= PER_FREE * (this.#max - this.#all)) return undefined;
    this.#all++;
    this.#ofAddress.set(address, held + 1);
    let left = false;
    return () => {
      if (!left) this.#leave(address);
      left = true;
    };
  }

  #leave(address: string): void {
    this.#all--;
    const held = (this.#ofAddress.get(address) ?? 0) - 1;
    if (held > 0) this.#ofAddress.set(address, held);
    else this.#ofAddress.delete(address);
  }
}

/** An IPv4 address, also where it stands in an IPv6 one; of IPv6 the first 64 bits, for the others everyone chooses for himself. */
function placeOf(address: string): string {
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1);
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  return [...left, ...Array<string>(zeros).fill('0'), ...right].slice(0, 4).join(':');
}
