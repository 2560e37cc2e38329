/**
 * Fetches the key set of a reference: from its URL, or, for `oidc:<issuer>`, from the URL in the issuer's discovery
 * document (OpenID Connect Discovery 1.0 section 4).
 */
import { CtlError } from '../../core/errors.ts';
import { shownUrl } from '../../core/network/http-call.ts';
import { OIDC_REFERENCE } from '../../resources/index.ts';
import { type Fetch, type FetchLimits, fetchJson } from '../fetch-json.ts';
import { discoveryAddress, keySetAddress } from '../oidc.ts';
import { usableKeys } from './usable-keys.ts';

/**
 * Limits for key servers: a slower server counts as down, and key sets have some kilobytes; a discovery document has
 * its own 5 s. Three redirects allow for a moved server behind a load balancer that redirects to https.
 */
export const KEY_SET_LIMITS: FetchLimits = { timeoutMs: 5000, maxBytes: 1024 * 1024, redirects: 3 };

function keyServerUrl(text: string): URL {
  const url = URL.parse(text);
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return url;
  throw new CtlError('invalid_argument', `${JSON.stringify(text.slice(0, 200))} is not an http or https URL`);
}

/** A reference as messages show it: without password and query. */
export function shownReference(reference: string): string {
  const prefix = reference.startsWith(OIDC_REFERENCE) ? OIDC_REFERENCE : '';
  const url = URL.parse(reference.slice(prefix.length));
  return url === null ? reference.slice(0, 200) : `${prefix}${shownUrl(url)}`;
}

async function discovered(issuer: string, fetch: Fetch, signal: AbortSignal, limits: FetchLimits): Promise<URL> {
  const url = keyServerUrl(discoveryAddress(issuer));
  const keys = keyServerUrl(keySetAddress(url, issuer, await fetchJson(url, fetch, signal, limits)));
  if (keys.protocol === 'https:' || url.protocol === 'http:') return keys;
  throw new CtlError('unavailable', `${shownUrl(url)}: its jwks_uri must use ${url.protocol.slice(0, -1)}`);
}

/** The JSON text of the usable keys. Rejects with CtlError that names the URL, without its password and query. */
export async function loadKeys(
  reference: string,
  fetch: Fetch,
  signal: AbortSignal,
  limits: FetchLimits = KEY_SET_LIMITS,
): Promise<string> {
  const url = reference.startsWith(OIDC_REFERENCE)
    ? await discovered(reference.slice(OIDC_REFERENCE.length), fetch, signal, limits)
    : keyServerUrl(reference);
  const document = await fetchJson(url, fetch, signal, limits);
  try {
    return usableKeys(document);
  } catch (error) {
    const reason = error instanceof CtlError ? error.message : String(error);
    throw new CtlError('unavailable', `${shownUrl(url)}: ${reason}`, {}, error);
  }
}
