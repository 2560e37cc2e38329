/**
 * Key sets of token issuers that have to be fetched: the name under which a rule refers to one, and which resource has
 * the fetched keys. Keys thereby reach snapshots and workers like all configuration, and generation never waits for
 * them.
 */
import type { JwtRule } from './kinds/schemas.ts';
import { type ResourceKey, resourceKey } from './kinds/types.ts';

/** Prefix of references to issuers that publish the URL of their keys (OpenID Connect Discovery 1.0). */
export const OIDC_REFERENCE = 'oidc:';

/**
 * The keys to fetch for a rule: its `jwksUri`, or `oidc:<issuer>` if the rule has no keys and its issuer is a URL.
 * Undefined if the keys are in the rule, or cannot be found.
 */
export function keySetReference({ issuer, jwks, jwksUri }: JwtRule): string | undefined {
  if (jwks !== undefined && jwks !== '') return undefined;
  if (jwksUri !== undefined && jwksUri !== '') return jwksUri;
  const url = issuer === undefined ? null : URL.parse(issuer);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? `${OIDC_REFERENCE}${issuer}` : undefined;
}

/** `meta.name` of the resource with the key set of a reference. */
export function keySetName(reference: string): string {
  return encodeURIComponent(reference);
}

/** Key of the resource with the key set of a reference. */
export function keySetKey(reference: string): ResourceKey {
  return resourceKey('JsonWebKeySet', '', keySetName(reference));
}
