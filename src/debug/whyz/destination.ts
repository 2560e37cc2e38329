/** The destination of a request that somebody asks about: `[http[s]://]host[:port][/path]`. */
import { CtlError } from '../../core/errors.ts';

export interface Destination {
  /** In lower case, without brackets. */
  readonly host: string;
  readonly port: number;
  readonly path: string;
  /** The client speaks TLS: proxies see the server name, and no request. */
  readonly tls: boolean;
}

/** Longest text that is read. */
const MAX_LENGTH = 2048;

/** Throws CtlError invalid_argument for anything else. */
export function parseDestination(text: string): Destination {
  const url = text.length > MAX_LENGTH ? null : URL.parse(/^https?:\/\//.test(text) ? text : `http://${text}`);
  if (url === null || url.hostname === '' || url.username !== '') {
    throw new CtlError('invalid_argument', 'destination: expected host, host:port or host:port/path');
  }
  const tls = url.protocol === 'https:';
  const port = url.port === '' ? (tls ? 443 : 80) : Number(url.port);
  return { host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port, path: url.pathname, tls };
}
