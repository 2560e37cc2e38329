/**
 * The keys of an OpenID Connect issuer (TOKEN_ISSUER): its discovery document names its key set; both are fetched in
 * the background and followed, and the last good keys stay when the issuer cannot be reached. Source:
 * https://openid.net/specs/openid-connect-discovery-1_0.html section 4
 */
import type { JSONWebKeySet } from 'jose';
import { z } from 'zod';
import { CtlError } from '../core/errors.ts';
import type { WallClock } from '../core/wall-clock.ts';
import { type Fetch, fetchJson, shownUrl, trustedUrl } from './fetch-json.ts';
import { Refresh } from './refresh.ts';
import type { TokenIssuer } from './token-authenticator.ts';

/** Keys are rotated within days; a key that is missing is looked for at once. */
const REFRESH_MS = 10 * 60_000;

/** Tokens with unknown keys cost the issuer at most this much: anyone can send them. */
const COOLDOWN_MS = 10_000;

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.string() });

/** Only objects; which of them is a key that can be used is up to jose. */
export const keySetSchema = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });

export interface OidcOptions {
  /** As tokens say it. */
  readonly issuer: string;
  readonly fetch: Fetch;
  readonly clock: WallClock;
  readonly random: () => number;
  readonly onProblem: (error: CtlError) => void;
}

/** Where an issuer says of itself where its keys are (section 4.1). */
export function discoveryAddress(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}

/**
 * The `jwks_uri` of what was found at `url`. Throws CtlError unavailable when it is not the document of this issuer
 * (section 4.3).
 */
export function keySetAddress(url: URL, issuer: string, document: unknown): string {
  const found = discoverySchema.safeParse(document);
  if (!found.success) throw new CtlError('unavailable', `${shownUrl(url)}: is not a discovery document`);
  if (found.data.issuer === issuer) return found.data.jwks_uri;
  const other = JSON.stringify(found.data.issuer.slice(0, 200));
  throw new CtlError('unavailable', `${shownUrl(url)}: is the document of another issuer, ${other}`);
}

/** Throws CtlError invalid_argument for an issuer that keys may not be fetched from. */
function discoveryUrl(issuer: string): URL {
  try {
    return trustedUrl(discoveryAddress(issuer));
  } catch (error) {
    const reason = error instanceof CtlError ? error.message : String(error);
    throw new CtlError('invalid_argument', reason, { field: 'TOKEN_ISSUER' }, error);
  }
}

async function loadKeys({ issuer, fetch }: OidcOptions, signal: AbortSignal): Promise<JSONWebKeySet> {
  const url = discoveryUrl(issuer);
  const address = keySetAddress(url, issuer, await fetchJson(url, fetch, signal));
  const keysUrl = trustedUrl(address);
  // An issuer that is reached over the network does not keep its keys on our own machine.
  if (keysUrl.protocol !== url.protocol)
    throw new CtlError('unavailable', `${url.href}: its jwks_uri is not ${url.protocol}`);
  const keys = keySetSchema.safeParse(await fetchJson(keysUrl, fetch, signal));
  if (!keys.success || keys.data.keys.length === 0) throw new CtlError('unavailable', `${keysUrl.href}: is no key set`);
  return keys.data;
}

/** `started` resolves after the first attempt to get the keys. */
export function followOidcIssuer(
  options: OidcOptions,
): TokenIssuer & { readonly started: Promise<void>; close(): void } {
  // Before anything is fetched, so that a bad setting is told at the start.
  discoveryUrl(options.issuer);
  const refresh = new Refresh<JSONWebKeySet>({
    load: async (signal) => ({ value: await loadKeys(options, signal), refreshMs: REFRESH_MS }),
    onProblem: options.onProblem,
    clock: options.clock,
    random: options.random,
    cooldownMs: COOLDOWN_MS,
  });
  const known = (): JSONWebKeySet => {
    if (refresh.value !== undefined) return refresh.value;
    // Why not is in the log: whoever sends a token here need not learn what our network answers.
    throw new CtlError('unavailable', 'the keys of its issuer are not known yet');
  };
  return {
    issuer: options.issuer,
    keys: {
      keys: async () => known(),
      newerKeys: async () => {
        await refresh.hurry();
        return known();
      },
    },
    started: refresh.start(),
    close: () => refresh.close(),
  };
}
