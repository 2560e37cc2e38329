/** The addresses that the program listens on: parsed from the flags, and formatted for the log. */
import { networkInterfaces } from 'node:os';
import { hostPort } from '../../core/network/listen.ts';
import { isLoopbackName } from '../../core/network/loopback.ts';
import { type ListenAddress, parseListenAddress } from '../../settings/index.ts';

/** The loopback addresses of this machine: IPv4, IPv6 or both. */
function loopbackHosts(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const found = ['127.0.0.1', '::1'].filter((host) => all.some(({ address }) => address === host));
  return found.length > 0 ? found : ['127.0.0.1'];
}

/**
 * The addresses of `--grpcAddr`. For `localhost` these are both address families, because Envoys and agents may resolve
 * the name to either. Port 0 (any free port) would differ between them, so it uses one address.
 */
export function plainAddresses(grpcAddr: string, hosts: () => readonly string[] = loopbackHosts): ListenAddress[] {
  const address = parseListenAddress(grpcAddr);
  if (address.host?.toLowerCase() !== 'localhost') return [address];
  const all = hosts().map((host) => ({ host, port: address.port }));
  return address.port === 0 ? all.slice(0, 1) : all;
}

/** Whether other machines may reach an address. */
export function isExposed({ host }: ListenAddress): boolean {
  return host === undefined || !isLoopbackName(host);
}

/** `127.0.0.1:8080`, `[::1]:8080`; `*:8080` is every address of the machine. */
function shownAddress({ host = '*', port }: ListenAddress): string {
  return hostPort({ host, port });
}

/** All listeners in one line: `xDS in plain text on 127.0.0.1:15010, [::1]:15010; HTTP on *:8080`. */
export function shownListeners(
  listeners: readonly (readonly [what: string, addresses: readonly ListenAddress[]])[],
): string {
  return listeners
    .filter(([, addresses]) => addresses.length > 0)
    .map(([what, addresses]) => `${what} on ${addresses.map(shownAddress).join(', ')}`)
    .join('; ');
}
