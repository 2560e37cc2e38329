/**
 * Which HTTP requests come from a program on this machine that a person runs here. Two things prove it together: the
 * connection comes from a loopback address, and the request names a loopback host. The second keeps out web pages that
 * a browser on this machine shows: a page whose host name is made to resolve to 127.0.0.1 (DNS rebinding) still sends
 * its own name as `Host`.
 */
import type { IncomingHttpHeaders } from 'node:http';

/**
 * Source address of connections that a sidecar hands to the application (Istio's `InboundPassthroughBindIpv4`): its
 * callers are remote.
 */
const SIDECAR_SOURCE = '127.0.0.6';

/** What proxies add to requests that they forward: such a request may come from anywhere. */
const FORWARDED = /^(?:forwarded|via|x-forwarded(?:-.*)?|x-real-ip|.*-client-ip|cf-connecting-ip|x-envoy-.*)$/;

/** Also in the form in which a socket of both address families says it, `::ffff:127.0.0.1`. */
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

/** The parts of a request that are looked at. */
export interface RequestOrigin {
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** Why a request is not one of a local user's own programs; undefined when it is. */
export function notLocal({ url = '/', headers, socket }: RequestOrigin): string | undefined {
  if (!isLoopbackAddress(socket.remoteAddress)) return 'it does not come from a loopback address';
  if (!isLoopbackName(hostOf(headers)) || !url.startsWith('/'))
    return 'its Host is not localhost or a loopback address';
  if (Object.keys(headers).some((name) => FORWARDED.test(name))) return 'a proxy forwarded it';
  // Browsers say so of requests that another page's script makes.
  const site = headers['sec-fetch-site'];
  const { origin } = headers;
  const foreign = origin !== undefined && !isLoopbackName(hostOf({ host: URL.parse(origin)?.host ?? '' }));
  if (foreign || (site !== undefined && site !== 'none' && site !== 'same-origin')) return 'another web page makes it';
  return undefined;
}
