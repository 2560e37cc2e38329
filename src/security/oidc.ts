/**
 * The keys of an OpenID Connect issuer (TOKEN_ISSUER). Its discovery document names its key set. Both are fetched in
 * the background and refreshed; the last good keys stay in use while the issuer cannot be reached. Source:
 * https://openid.net/specs/openid-connect-discovery-1_0.html section 4
 */
import type { JSONWebKeySet } from 'jose';
import { z } from 'zod';
import { CtlError } from '../core/errors.ts';
import { shownUrl } from '../core/network/http-call.ts';
import { Refresh, type RefreshOptions } from '../core/scheduling/refresh.ts';
import type { WallClock } from '../core/wall-clock.ts';
import { type Fetch, fetchJson, trustedUrl } from './fetch-json.ts';
import type { TokenIssuer } from './token-authenticator.ts';

/** Keys are rotated within days; an unknown key triggers a refresh at once. */
const REFRESH_MS = 10 * 60_000;

/** The minimum interval of refreshes because of tokens with unknown keys: anyone can send such tokens. */
const COOLDOWN_MS = 10_000;

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.string() });

/** Only checks for objects; jose decides which of them are usable keys. */
export const keySetSchema = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });

export interface OidcOptions {
  /** `iss` of its tokens. */
  readonly issuer: string;
  readonly fetch: Fetch;
  readonly clock: WallClock;
  readonly random: () => number;
  readonly onProblem: (error: CtlError) => void;
}

/** The URL of an issuer's discovery document (section 4.1). */
export function discoveryAddress(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}

/**
 * The `jwks_uri` of the document from `url`. Throws CtlError unavailable when it is not the document of this issuer
 * (section 4.3).
 */
export function keySetAddress(url: URL, issuer: string, document: unknown): string {
  const found = discoverySchema.safeParse(document);
  if (!found.success) throw new CtlError('unavailable', `${shownUrl(url)}: is not a discovery document`);
  if (found.data.issuer === issuer) return found.data.jwks_uri;
  const other = JSON.stringify(found.data.issuer.slice(0, 200));
  throw new CtlError('unavailable', `${shownUrl(url)}: is the document of another issuer, ${other}`);
}

/**
 * The URL of the issuer's discovery document. Throws CtlError invalid_argument for an issuer that keys may not be
 * fetched from.
 */
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
  // An issuer on the network cannot have its keys on this machine.
  if (keysUrl.protocol !== url.protocol)
    throw new CtlError('unavailable', `${url.href}: its jwks_uri must use ${url.protocol.slice(0, -1)}`);
  const keys = keySetSchema.safeParse(await fetchJson(keysUrl, fetch, signal));
  if (!keys.success || keys.data.keys.length === 0)
    throw new CtlError('unavailable', `${keysUrl.href}: is not a key set`);
  return keys.data;
}

/** Follows the keys of an issuer. */
export function followOidcIssuer(options: OidcOptions): FollowedIssuer {
  const { issuer, clock, random, onProblem } = options;
  // Before anything is fetched, so that an invalid setting is reported at startup.
  discoveryUrl(issuer);
  return followIssuer(issuer, {
    load: async (signal) => ({ value: await loadKeys(options, signal), refreshMs: REFRESH_MS }),
    onProblem,
    clock,
    random,
    cooldownMs: COOLDOWN_MS,
  });
}

/** `started` resolves after the first attempt to load its keys. */
export type FollowedIssuer = TokenIssuer & { readonly started: Promise<void>; close(): void };

/** An issuer whose keys are loaded in the background. */
export function followIssuer(issuer: string, options: RefreshOptions<JSONWebKeySet>): FollowedIssuer {
  const refresh = new Refresh(options);
  const known = (): JSONWebKeySet => {
    if (refresh.value !== undefined) return refresh.value;
    // The reason is in the log; the sender of a token must not learn about this network.
    throw new CtlError('unavailable', 'the keys of its issuer are not known yet');
  };
  return {
    issuer,
    keys: {
      keys: async () => known(),
      newerKeys: async () => {
        await refresh.loadNow();
        return known();
      },
    },
    started: refresh.start(),
    close: () => void refresh.close(),
  };
}
