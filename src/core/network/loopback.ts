/**
 * Decides whether an HTTP request comes from a program that a user runs on this machine. Two conditions must hold: the
 * connection comes from a loopback address, and the request names a loopback host. The second excludes web pages in a
 * browser on this machine: a page whose host name resolves to 127.0.0.1 (DNS rebinding) still sends its own name as
 * `Host`. Requests for others are excluded: those that a proxy forwards, and those to a URL that the author of a policy
 * chose.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { INTERNAL_FETCH_HEADER } from './internal-fetch.ts';

/**
 * Source address of connections that a sidecar forwards to the application (Istio's `InboundPassthroughBindIpv4`): its
 * callers are remote.
 */
const SIDECAR_SOURCE = '127.0.0.6';

/** Headers that proxies add to the requests that they forward: such a request may come from anywhere. */
const FORWARDED = /^(?:forwarded|via|x-forwarded(?:-.*)?|x-real-ip|.*-client-ip|cf-connecting-ip|x-envoy-.*)$/;

/** Also accepts the form that a dual-stack socket reports, `::ffff:127.0.0.1`. */
export function isLoopbackAddress(address = ''): boolean {
  const plain = address.replace(/^::ffff:/i, '');
  return plain === '::1' || (/^127\.\d+\.\d+\.\d+$/.test(plain) && plain !== SIDECAR_SOURCE);
}

/** A host name or address without port. */
export function isLoopbackName(host: string): boolean {
  return host.toLowerCase() === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** The host of a `Host` header, without port and brackets; '' when there is none. */
export function hostOf({ host = '' }: IncomingHttpHeaders): string {
  return host.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1');
}

/** The parts of a request on which the decision depends. */
export interface RequestOrigin {
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** Why a request does not come from a local user's program; undefined when it does. */
export function notLocal({ url = '/', headers, socket }: RequestOrigin): string | undefined {
  if (!isLoopbackAddress(socket.remoteAddress)) return 'it does not come from a loopback address';
  if (!isLoopbackName(hostOf(headers)) || !url.startsWith('/'))
    return 'its Host is not localhost or a loopback address';
  if (Object.keys(headers).some((name) => FORWARDED.test(name))) return 'a proxy forwarded it';
  if (headers[INTERNAL_FETCH_HEADER] !== undefined) return 'a policy caused it';
  // Browsers add these to requests that a script of another page makes.
  const site = headers['sec-fetch-site'];
  const { origin } = headers;
  const foreign = origin !== undefined && !isLoopbackName(hostOf({ host: URL.parse(origin)?.host ?? '' }));
  if (foreign || (site !== undefined && site !== 'none' && site !== 'same-origin'))
    return 'a page of another site sent it';
  return undefined;
}
