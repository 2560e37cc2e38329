/**
 * How many connections are taken. Each costs a file descriptor and, encrypted, a handshake, before anybody has said who he is; a
 * process without descriptors can neither accept a proxy nor read a file. One address may hold most of them, for thousands of proxies
 * can come from behind one address translation, but never so many that nothing is left for other addresses.
 */

/** Connections of one address for each that is still free: so at most 4 of 5 are of one address. */
const PER_FREE = 4;

export class ConnectionLimits {
  readonly #max: number;
  readonly #ofAddress = new Map<string, number>();
  #all = 0;

  /** @param max connections of all addresses together; Infinity: no limit */
  constructor(max: number) {
    this.#max = max;
  }

  /** Takes note of a connection. @returns what to call when it has ended; undefined when it cannot be taken */
  enter(remoteAddress: string): (() => void) | undefined {
    const address = placeOf(remoteAddress);
    const held = this.#ofAddress.get(address) ?? 0;
    if (held >= PER_FREE * (this.#max - this.#all)) return undefined;
    this.#all++;
    this.#ofAddress.set(address, held + 1);
    return () => this.#leave(address);
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
