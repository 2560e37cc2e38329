/** Reads claims of a token without verifying it: the server that it is sent to does that. */
import { isObject } from './objects.ts';

/** The claims (RFC 7519 section 4); undefined for a string that is not a JWT. */
export function unverifiedClaims(token: string): Readonly<Record<string, unknown>> | undefined {
  const [, payload, signature, more] = token.split('.');
  if (payload === undefined || signature === undefined || more !== undefined) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    return isObject(claims) ? { ...claims } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Epoch ms of the claim `exp` (RFC 7519 section 4.1.4): Infinity without one, undefined if it is not a time or the
 * string is not a JWT.
 */
export function unverifiedExpiry(token: string): number | undefined {
  const claims = unverifiedClaims(token);
  if (claims === undefined) return undefined;
  const { exp } = claims;
  if (exp === undefined) return Number.POSITIVE_INFINITY;
  return typeof exp === 'number' && Math.abs(exp) < 1e12 ? exp * 1000 : undefined;
}
