/**
 * Authenticates callers by a JSON Web Token of a trusted issuer (RFC 7519, with the precautions of RFC 8725): the
 * issuer's keys decide, never the key or algorithm that the token names. Where a cluster is read, its API server
 * decides about the tokens of all issuers whose keys are not known here. The subject is that of a Kubernetes service
 * account, `system:serviceaccount:<namespace>:<service account>`, and stands for a workload of this mesh's own trust
 * domain.
 */
import { createLocalJWKSet, decodeJwt, errors, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose';
import { CtlError } from '../core/errors.ts';
import { quoted, refused, serviceAccountIdentity } from './service-account.ts';
import type { TokenReviewer } from './token-review/token-reviewer.ts';
import type { Authenticator, Caller } from './types.ts';

/** The keys of one issuer. */
export interface KeySource {
  /** The keys known now. Rejects with CtlError unavailable when there are none yet. */
  keys(): Promise<JSONWebKeySet>;
  /** For a token with an unknown key: fetches the keys again, unless that was done a moment ago. */
  newerKeys(): Promise<JSONWebKeySet>;
}

export interface TokenIssuer {
  /** `iss` of its tokens. */
  readonly issuer: string;
  readonly keys: KeySource;
}

export interface TokenAuthenticatorOptions {
  readonly issuers: readonly TokenIssuer[];
  /** Reviews the tokens of all other issuers; absent: they are refused. */
  readonly reviewer?: TokenReviewer;
  readonly trustDomain: string;
  /** One of them must be in a token's `aud`. */
  readonly audiences: readonly string[];
  /** JWT_POLICY first-party-jwt: tokens without any audience are accepted as well. */
  readonly withoutAudience: boolean;
  /** Epoch ms. */
  readonly now: () => number;
}

/**
 * Only signatures that a public key verifies: `none` proves nothing, and with HS256 a holder of the public key could
 * sign (RFC 8725 section 3.1).
 */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'ES256', 'ES384', 'ES512'];

/** Tokens of Kubernetes have about one kilobyte. */
const MAX_TOKEN_CHARS = 16 * 1024;

/** How far the clocks of issuers may be ahead (`nbf`), seconds. */
const CLOCK_TOLERANCE_S = 10;

function readPayload(token: string): JWTPayload {
  if (token.length > MAX_TOKEN_CHARS) throw refused(`longer than ${MAX_TOKEN_CHARS} characters`);
  try {
    return decodeJwt(token);
  } catch (error) {
    throw refused('not a JSON Web Token', error);
  }
}

/** The reason in one line for an error of jose. */
function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'it has expired';
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === 'aud') return 'it is meant for another audience';
    return error.reason === 'missing' ? `it lacks ${quoted(error.claim)}` : `its ${quoted(error.claim)} is not valid`;
  }
  if (error instanceof errors.JWKSNoMatchingKey) return 'it is not signed with a key of its issuer';
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return 'its signature does not match the keys of its issuer';
  if (error instanceof errors.JOSEAlgNotAllowed) return `its algorithm is not one of ${ALGORITHMS.join(', ')}`;
  return 'it cannot be verified';
}

/** Cached by key set: importing its keys costs more than verifying a signature, and anyone can send tokens. */
const resolvers = new WeakMap<JSONWebKeySet, ReturnType<typeof createLocalJWKSet>>();

function resolverOf(keys: JSONWebKeySet): ReturnType<typeof createLocalJWKSet> {
  const known = resolvers.get(keys) ?? createLocalJWKSet(keys);
  resolvers.set(keys, known);
  return known;
}

/** Tries each key that matches: an issuer's keys need no `kid`. */
async function verifyWith(
  keys: JSONWebKeySet,
  token: string,
  options: Parameters<typeof jwtVerify>[2],
): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, resolverOf(keys), options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    for await (const key of error) {
      try {
        return (await jwtVerify(token, key, options)).payload;
      } catch (inner) {
        if (!(inner instanceof errors.JWSSignatureVerificationFailed)) throw inner;
      }
    }
    throw new errors.JWSSignatureVerificationFailed();
  }
}

async function verifyFresh(
  source: KeySource,
  token: string,
  options: Parameters<typeof jwtVerify>[2],
): Promise<JWTPayload> {
  const keys = await source.keys();
  try {
    return await verifyWith(keys, token, options);
  } catch (error) {
    if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
    const newer = await source.newerKeys();
    if (newer === keys) throw error;
    return verifyWith(newer, token, options);
  }
}

export function createTokenAuthenticator(options: TokenAuthenticatorOptions): Authenticator {
  const { trustDomain, audiences, withoutAudience, reviewer, now } = options;
  const issuers = new Map(options.issuers.map((issuer) => [issuer.issuer, issuer.keys]));

  const verified = async (token: string, peer: string): Promise<Caller> => {
    const unproved = readPayload(token);
    const source = issuers.get(unproved.iss ?? '');
    if (source === undefined && reviewer !== undefined) return reviewer.review(token, unproved, peer);
    if (issuers.size === 0) throw refused('no token issuer is configured (TOKEN_ISSUER, LOCAL_TOKEN_ISSUER_DIR)');
    if (source === undefined) throw refused(`its issuer ${quoted(String(unproved.iss ?? ''))} is not trusted`);
    const needsAudience = !(withoutAudience && unproved.aud === undefined);
    const payload = await verifyFresh(source, token, {
      algorithms: ALGORITHMS,
      currentDate: new Date(now()),
      clockTolerance: CLOCK_TOLERANCE_S,
      requiredClaims: ['exp', 'sub'],
      ...(needsAudience ? { audience: [...audiences] } : {}),
    });
    const expiresAt = (payload.exp ?? 0) * 1000;
    // The tolerance is for clocks that are ahead, not for expired tokens.
    if (expiresAt <= now()) throw refused('it has expired');
    return { identity: serviceAccountIdentity(payload.sub, trustDomain), by: 'token', expiresAt };
  };

  /**
   * Verifications in progress, by token: a header that a client repeats takes a byte or two of HTTP/2, so that anyone
   * can send thousands of calls with one token; they cost one verification.
   */
  const inProgress = new Map<string, Promise<Caller>>();

  const verifiedOnce = (token: string, peer: string): Promise<Caller> => {
    const known = inProgress.get(token);
    if (known !== undefined) return known;
    const result = verified(token, peer).finally(() => inProgress.delete(token));
    inProgress.set(token, result);
    return result;
  };

  return {
    name: 'token',
    authenticate: async ({ bearer, peer }) => {
      if (bearer === undefined) return undefined;
      try {
        return await verifiedOnce(bearer, peer);
      } catch (error) {
        if (error instanceof CtlError) throw error;
        throw refused(reasonOf(error), error);
      }
    },
  };
}
