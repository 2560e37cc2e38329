/** Addresses to listen on, in Go's form `host:port`: `:15010`, `127.0.0.1:0`, `[::1]:8080`, `localhost:80`. */
import { hostPort } from '../core/network/listen.ts';
import { usageError } from './errors.ts';
import { parseInteger } from './values.ts';

export interface ListenAddress {
  /** Undefined: all addresses. */
  readonly host: string | undefined;
  /** 0: any free port. */
  readonly port: number;
}

/** Throws an `Error` of one line for any other string. */
export function parseListenAddress(text: string): ListenAddress {
  const match = /^(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:[\]\s]*)):(\d+)$/.exec(text);
  if (match === null) throw usageError('not an address like :8080 or 127.0.0.1:8080');
  const host = match[1] ?? match[2] ?? '';
  return { host: host === '' || host === '*' ? undefined : host, port: parseInteger(match[3] ?? '', 0, 65_535) };
}

/**
 * The `host:port` to call a program on this machine that listens on an address. Throws like {@link parseListenAddress}.
 */
export function dialAddress(listening: string): string {
  const { host = 'localhost', port } = parseListenAddress(listening);
  return hostPort({ host, port });
}
