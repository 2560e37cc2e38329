/**
 * Limits a resource that all clients share, such as connections, streams, watches or memory, so that no client address
 * exhausts it before clients are authenticated. One address may have most of it, because thousands of proxies can be
 * behind one address translation, but some is always left for other addresses. Clients behind the same address are not
 * distinguished: if that matters, they have to use the encrypted port.
 */
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';

/** Units of one address for each free unit: one address has at most 4 of 5. */
const PER_FREE = 4;

export class PerAddressLimiter {
  readonly #limiter: FairLimiter;

  /** @param max units of all addresses together; Infinity: no limit */
  constructor(max: number) {
    this.#limiter = new FairLimiter(max, PER_FREE);
  }

  /**
   * Takes one unit or several.
   * @returns releases them; further calls have no effect. Undefined when this address cannot have as many
   */
  enter(remoteAddress: string, units = 1): (() => void) | undefined {
    return this.#limiter.enter(networkOf(remoteAddress), units);
  }

  /** Whether this address can have a unit now. */
  admits(remoteAddress: string): boolean {
    return this.#limiter.admits(networkOf(remoteAddress));
  }
}

/**
 * The address that clients are counted by: an IPv4 address, also as a part of an IPv6 address; of other IPv6 addresses
 * the first 64 bits, because hosts choose the remaining bits freely.
 */
export function networkOf(address: string): string {
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1);
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  return [...left, ...Array<string>(zeros).fill('0'), ...right].slice(0, 4).join(':');
}
