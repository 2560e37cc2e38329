/** Whether an address is one on which this process listens: a query sent there would come back. */
import { systemClock } from '../../core/clock.ts';
import { createLocalAddresses } from './local-addresses.ts';

/**
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
