/** A rule about tokens as a provider of Envoy's jwt_authn filter. */
import type { envoy } from '../../../protobuf/index.ts';
import { FAILURE, PAYLOAD } from './metadata.ts';
import { outputHeaders } from './output-headers.ts';
import type { TokenRule } from './rules.ts';
import { placesOfRule } from './token-locations.ts';
import { checksAudiences } from './wrong-audience.ts';

export type Provider = envoy.extensions.filters.http.jwt_authn.v3.JwtProvider.Input;

/** Envoy takes 0 for its default of a minute; 1 is the least that can be said. */
const LEAST_CLOCK_SKEW_SECONDS = 1;

/**
 * Claims that are lists of words for everybody (RFC 8693 section 4.2, and custom): policies look at the single words.
 */
const WORDS = ['scope', 'permission'];

/** The provider of a rule that looks in these of its places. */
export function providerOf(tokenRule: TokenRule, only: ReadonlySet<string>): Provider {
  const { rule, jwks } = tokenRule;
  const { fromHeaders, fromParams, fromCookies } = placesOfRule(rule, only);
  const { outputPayloadToHeader = '', outputClaimToHeaders = [], spaceDelimitedClaims = [] } = rule;
  return {
    issuer: rule.issuer,
    audiences: rule.audiences ?? [],
    // Without any text Envoy has no keys, and refuses all tokens of the issuer; a set without keys it would not take.
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
    // Routes may be chosen by what the token says, and never by what the client wrote there instead.
    clearRouteCache: outputHeaders(tokenRule).length > 0,
    ...(checksAudiences(tokenRule) && { failedStatusInMetadata: FAILURE }),
  };
}
