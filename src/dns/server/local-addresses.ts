/** Decides whether an address is one of this machine. */
import { networkInterfaces } from 'node:os';
import { systemClock } from '../../core/clock.ts';

/** How old the list of the machine's addresses may be when an address is not in it, ms. */
const MAX_AGE_MS = 1000;

/**
 * True for loopback addresses, and for those of the machine's interfaces: a redirected query keeps the source address
 * that it would have had on its way to the real server.
 *
 * @param now monotonic ms
 */
export function createLocalAddresses(now: () => number, interfaces = networkInterfaces): (address: string) => boolean {
  let known = new Set<string>();
  let readAt = Number.NEGATIVE_INFINITY;
  return (text) => {
    // Most clients have this prefix.
    if (text.startsWith('127.')) return true;
    const address = text.replace(/^::ffff:/i, '').replace(/%.*$/, '');
    if (address === '::1' || address.startsWith('127.')) return true;
    if (known.has(address)) return true;
    // Addresses may be added while the program runs, but unknown clients must not cause it to read the list for each
    // query.
    if (now() - readAt < MAX_AGE_MS) return false;
    readAt = now();
    known = new Set(Object.values(interfaces()).flatMap((list) => (list ?? []).map((entry) => entry.address)));
    return known.has(address);
  };
}

/**
 * Whether this process listens on an address: a query sent there would return to this process.
 *
 * @param addresses of the server, as `host:port`; read for each call, because the server may start after its forwarder
 */
export function createOwnAddresses(addresses: () => readonly string[]): (host: string, port: number) => boolean {
  const isLocal = createLocalAddresses(systemClock.now);
  return (host, port) =>
    addresses().some((address) => {
      const [, own, ownPort] = /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [];
      if (Number(ownPort) !== port) return false;
      return own === host || ((own === '::' || own === '0.0.0.0') && isLocal(host));
    });
}
