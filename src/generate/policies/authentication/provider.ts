/** A rule about tokens as a provider of Envoy's jwt_authn filter. */
import type { envoy } from '../../../protobuf/index.ts';
import { FAILURE, PAYLOAD } from './metadata.ts';
import { outputHeaders } from './output-headers.ts';
import type { TokenRule } from './rules.ts';
import { locationsOfRule } from './token-locations.ts';
import { checksAudiences } from './wrong-audience.ts';

export type Provider = envoy.extensions.filters.http.jwt_authn.v3.JwtProvider.Input;

/** Envoy reads 0 as its default of a minute; 1 is the minimum. */
const LEAST_CLOCK_SKEW_SECONDS = 1;

/** Claims that are lists of words by convention (RFC 8693 section 4.2): policies match the single words. */
const WORDS = ['scope', 'permission'];

/** The provider of a rule that reads these of its token locations. */
export function providerOf(tokenRule: TokenRule, only: ReadonlySet<string>): Provider {
  const { rule, jwks } = tokenRule;
  const { fromHeaders, fromParams, fromCookies } = locationsOfRule(rule, only);
  const { outputPayloadToHeader = '', outputClaimToHeaders = [], spaceDelimitedClaims = [] } = rule;
  return {
    // Without one Envoy accepts the tokens of all issuers that the keys are for.
    issuer: rule.issuer ?? '',
    audiences: rule.audiences ?? [],
    // With an empty text Envoy has no keys, and refuses all tokens of the issuer; it would not accept a set without
    // keys.
    localJwks: { inlineString: jwks },
    forward: rule.forwardOriginalToken ?? false,
    fromHeaders: fromHeaders.map(({ name, prefix = '' }) => ({ name, valuePrefix: prefix })),
    fromParams,
    fromCookies,
    forwardPayloadHeader: outputPayloadToHeader,
    claimToHeaders: outputClaimToHeaders.map(({ header, claim }) => ({ headerName: header, claimName: claim })),
    payloadInMetadata: PAYLOAD,
    normalizePayloadInMetadata: { spaceDelimitedClaims: [...new Set([...WORDS, ...spaceDelimitedClaims])] },
    clockSkewSeconds: LEAST_CLOCK_SKEW_SECONDS,
    // Routes may be chosen by the token's claims, and never by clients' values of these headers.
    clearRouteCache: outputHeaders(tokenRule).length > 0,
    ...(checksAudiences(tokenRule) && { failedStatusInMetadata: FAILURE }),
  };
}
