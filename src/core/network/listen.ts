/** Listens on TCP addresses, with one error for an address that cannot be used. */
import type { ListenOptions, Server } from 'node:net';
import { CtlError, errnoOf, messageOf } from '../errors.ts';

export interface Address {
  /** Undefined: all addresses of the machine. */
  readonly host?: string | undefined;
  readonly port: number;
}

/** `host:port` with brackets around an IPv6 address; `:port` for all addresses. */
export function hostPort({ host = '', port }: Address): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** The port that a server listens on; 0 when it does not. */
export function portOf(server: Server | undefined): number {
  const address = server?.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Resolves with the port when the server listens. Rejects with the error of the system. */
export async function listening(
  server: Server,
  { host, port, ...more }: Address & Pick<ListenOptions, 'backlog' | 'ipv6Only' | 'reusePort'>,
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen({ port, ...more, ...(host === undefined ? {} : { host }) }, resolve);
  try {
    await promise;
  } finally {
    server.off('error', reject);
  }
  return portOf(server);
}

/**
 * Resolves with the port when the server listens. Later errors are warnings: a connection could not be accepted, for
 * lack of memory or file descriptors, and the others continue.
 * @param name the flag with the address, or what the server serves
 * @throws CtlError `unavailable` that names it and the address
 */
export async function listen(
  server: Server,
  name: string,
  address: Address,
  warn: (line: string) => void,
): Promise<number> {
  const port = await listening(server, address).catch((error: unknown) => {
    throw cannotListen(name, address, error);
  });
  server.on('error', (error) => warn(`${name}: ${error.message}`));
  return port;
}

export function cannotListen(name: string, address: Address, error: unknown): CtlError {
  const reason = errnoOf(error) ?? messageOf(error);
  return new CtlError('unavailable', `cannot listen on ${hostPort(address)} (${reason})`, { field: name }, error);
}

/** Whether the machine does not have the address: one without IPv6 has no `::1`. */
export function isMissingAddress(error: unknown): boolean {
  const code = errnoOf(error instanceof CtlError ? error.cause : error);
  return code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT';
}
