/**
 * Key sets of token issuers that have to be fetched: by what name a rule asks for one, and which resource holds what
 * was fetched. So keys reach snapshots and workers the way that all configuration takes, and generation never waits for
 * them.
 */
import type { JwtRule } from './schemas.ts';
import { type ResourceKey, resourceKey } from './types.ts';

/** Begins the references of issuers that say themselves where their keys are (OpenID Connect Discovery 1.0). */
export const OIDC_REFERENCE = 'oidc:';

/**
 * What has to be fetched for a rule: its `jwksUri`, or `oidc:<issuer>` where the rule says nothing of keys and its
 * issuer is a URL. Undefined when the keys stand in the rule, or cannot be found.
 */
export function keySetReference({ issuer, jwks, jwksUri }: JwtRule): string | undefined {
  if (jwks !== undefined && jwks !== '') return undefined;
  if (jwksUri !== undefined && jwksUri !== '') return jwksUri;
  const url = URL.parse(issuer);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? `${OIDC_REFERENCE}${issuer}` : undefined;
}

/** `meta.name` of the resource that holds the key set of a reference. */
export function keySetName(reference: string): string {
  return encodeURIComponent(reference);
}

/** Key of the resource that holds the key set of a reference. */
export function keySetKey(reference: string): ResourceKey {
  return resourceKey('JsonWebKeySet', '', keySetName(reference));
}
