/**
 * An application as lenient as real ones: it interprets the path that it receives and serves the result. Frameworks
 * interpret paths differently, so it records requests, and a test applies each interpretation afterwards.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Owner } from '../../harness/index.ts';

/**
 * The normalization of an application: none; that of RFC 3986 (escaped letters, dots, and the backslash that browsers
 * treat as a slash); repeated slashes as one; escaped slashes as slashes.
 */
export type Leniency = 'literal' | 'rfc3986' | 'merging' | 'decoding';

export interface Served {
  readonly target: string;
  readonly host: string;
  /** Header `x-case` of the request. */
  readonly key: string;
  /** Header `x-form`. */
  readonly form: string;
}

export interface LenientApplication {
  readonly port: number;
  /** All requests that it received. */
  readonly served: readonly Served[];
}

export async function startLenientApplication(owner: Owner): Promise<LenientApplication> {
  const served: Served[] = [];
  const server = createServer({ insecureHTTPParser: true, requireHostHeader: false }, (request, response) => {
    const { url = '', headers } = request;
    const one: Served = {
      target: url,
      host: headers.host ?? '',
      key: String(headers['x-case'] ?? ''),
      form: String(headers['x-form'] ?? ''),
    };
    served.push(one);
    response.end(JSON.stringify(one));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  owner.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, served };
}

/**
 * All possible interpretations of a target by an application of this kind. Frameworks normalize in different orders,
 * and some drop what follows a `;` in a segment.
 */
export function resourcesOf(target: string, leniency: Leniency): string[] {
  // Absolute form: the path of the URL.
  const local = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const path = local.replace(/[?#].*$/s, '') || '/';
  if (leniency === 'literal') return [path];
  const decode = leniency === 'decoding' ? unescapeAll : unescapeLetters;
  return [path, withoutParameters(path)]
    .map(decode)
    .flatMap((each) =>
      leniency === 'rfc3986'
        ? [withoutDots(each)]
        : [withoutDots(each), withoutDots(mergeSlashes(each)), mergeSlashes(withoutDots(each))],
    );
}

const withoutParameters = (path: string): string => path.replace(/;[^/]*/g, '');

/** Escapes of characters that need none (RFC 3986, section 2.3), once. */
function unescapeLetters(path: string): string {
  const decoded = path.replace(/%[0-9a-f]{2}/gi, (triplet) => {
    const character = String.fromCharCode(Number.parseInt(triplet.slice(1), 16));
    return /[A-Za-z0-9._~-]/.test(character) ? character : triplet;
  });
  return decoded.replaceAll('\\', '/');
}

function unescapeAll(path: string): string {
  const character = (triplet: string) => String.fromCharCode(Number.parseInt(triplet.slice(1), 16));
  return path.replace(/%[0-9a-f]{2}/gi, character).replaceAll('\\', '/');
}

const mergeSlashes = (path: string): string => path.replace(/\/{2,}/g, '/');

/** RFC 3986, section 5.2.4. */
function withoutDots(path: string): string {
  const kept: string[] = [];
  const segments = path.split('/').slice(1);
  for (const [index, segment] of segments.entries()) {
    const last = index === segments.length - 1;
    if (segment === '..') kept.pop();
    else if (segment !== '.') kept.push(segment);
    if (last && (segment === '.' || segment === '..')) kept.push('');
  }
  return `/${kept.join('/')}`;
}

/** Possible interpretations of a Host header: split by hand, or parsed as that of a URL. */
export function hostsOf(host: string): string[] {
  const text = host.trim();
  const bare = text.toLowerCase().replace(/:.*$/s, '');
  const urls = [text, Buffer.from(text, 'latin1').toString('utf8')].map(
    (each) => URL.parse(`http://${each}`)?.hostname,
  );
  return [...new Set([bare, ...urls].flatMap((name) => (name === undefined ? [] : [name.replace(/\.+$/, '')])))];
}
