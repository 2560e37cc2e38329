/**
 * Fetches from a server that the author of a policy named. The address is checked after the name is resolved, and the
 * connection goes to the checked address, so that a name that resolves to another address a moment later (DNS
 * rebinding) has no effect. Redirects are not followed: the caller calls again, and the next server is checked as well.
 * Proxies from the environment are not used, because they would resolve the name again.
 */
import { lookup as systemLookup } from 'node:dns/promises';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { Readable } from 'node:stream';
import { CtlError, toError } from '../../core/errors.ts';
import { INTERNAL_FETCH_HEADER } from '../../core/network/internal-fetch.ts';
import type { Fetch } from '../fetch-json.ts';
import { isRefusedAddress } from './addresses.ts';

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

export interface GuardedFetchOptions {
  /** Resolves a name to all of its addresses; by default the system's resolver. */
  readonly lookup?: (hostname: string) => Promise<readonly ResolvedAddress[]>;
  /** Trusted roots instead of the system's, PEM. */
  readonly ca?: string;
}

/** Statuses of responses without a body (Fetch standard, "null body status"). */
const WITHOUT_BODY = new Set([204, 205, 304]);

function refused(host: string, addresses: readonly string[]): CtlError {
  if (addresses.length === 0) return new CtlError('unavailable', `${host} has no address`);
  const shown = addresses.slice(0, 3).join(', ');
  return new CtlError('permission_denied', `${host} has the address ${shown}, to which connections are not allowed`);
}

/** The allowed addresses of a name. Rejects when there are none. */
async function allowedAddresses(
  hostname: string,
  lookup: NonNullable<GuardedFetchOptions['lookup']>,
): Promise<{ address: string; family: number }[]> {
  const found = await lookup(hostname);
  const allowed = found.filter(({ address }) => !isRefusedAddress(address));
  if (allowed.length > 0) return allowed.map(({ address, family }) => ({ address, family }));
  throw refused(
    hostname,
    found.map(({ address }) => address),
  );
}

/**
 * An address to connect to, of a host that the author of a document named. Rejects with CtlError when it has none that
 * is allowed.
 */
export async function guardedAddress(
  host: string,
  lookup: NonNullable<GuardedFetchOptions['lookup']>,
): Promise<string> {
  if (isIP(host) !== 0) {
    if (isRefusedAddress(host)) throw refused(host, [host]);
    return host;
  }
  const [first] = await allowedAddresses(host, lookup);
  if (first === undefined) throw refused(host, []);
  return first.address;
}

/** A resolver for sockets, which connect to the addresses that it returns, in that order. */
function checkedLookup(lookup: NonNullable<GuardedFetchOptions['lookup']>): LookupFunction {
  return (hostname, { all }, callback) => {
    allowedAddresses(hostname, lookup).then(
      (addresses) => {
        const [first] = addresses;
        if (all === true || first === undefined) callback(null, addresses);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };
}

function responseOf(message: IncomingMessage): Response {
  const headers = new Headers();
  for (const name of ['content-length', 'location'] as const) {
    const value = message.headers[name];
    if (value !== undefined) headers.set(name, value);
  }
  const status = message.statusCode ?? 0;
  if (WITHOUT_BODY.has(status)) message.resume();
  const body = WITHOUT_BODY.has(status) ? null : (Readable.toWeb(message) as ReadableStream<Uint8Array>);
  return new Response(body, { status, headers });
}

/** Aborts the exchange with `signal`, in any phase. */
function endBy(signal: AbortSignal, request: ClientRequest): void {
  let message: IncomingMessage | undefined;
  const end = (): void => {
    const reason: unknown = signal.reason;
    const error = toError(reason);
    message?.destroy(error);
    request.destroy(error);
  };
  request.once('response', (response: IncomingMessage) => {
    message = response;
    // A reader of the body gets the error; without a reader it is ignored.
    message.on('error', () => {});
  });
  request.once('close', () => signal.removeEventListener('abort', end));
  signal.addEventListener('abort', end, { once: true });
}

/**
 * A fetch for GET requests; of `init` only the headers and the signal are used. A refused address rejects with CtlError
 * permission_denied.
 */
export function guardedFetch(options: GuardedFetchOptions = {}): Fetch {
  const resolve = options.lookup ?? ((hostname: string) => systemLookup(hostname, { all: true }));
  const lookup = checkedLookup(resolve);
  return async (href, { headers, signal }) => {
    signal?.throwIfAborted();
    const url = new URL(href);
    const host = url.hostname.replace(/^\[|\]$/g, '');
    // A socket does not resolve addresses, so they are checked here.
    if (isIP(host) !== 0 && isRefusedAddress(host)) throw refused(host, [host]);
    return new Promise<Response>((done, failed) => {
      const start = url.protocol === 'https:' ? httpsRequest : httpRequest;
      const request = start(url, {
        // Uses a new connection: a pooled one was checked for another name.
        agent: false,
        headers: { ...Object.fromEntries(new Headers(headers)), [INTERNAL_FETCH_HEADER]: 'keys' },
        lookup,
        ...(options.ca === undefined ? {} : { ca: options.ca }),
      });
      request.once('response', (message) => {
        try {
          done(responseOf(message));
        } catch (error) {
          message.destroy();
          failed(error);
        }
      });
      request.on('error', failed);
      if (signal) endBy(signal, request);
      request.end();
    });
  };
}
