/**
 * End users' tokens: RequestAuthentication as Envoy's jwt_authn filter. Requests without a token, and requests whose
 * token is valid for a rule, pass; requests with any other token in a token location of a rule receive HTTP 401.
 * Authorization decides whether a token is required.
 */
import { envoy } from '../../../protobuf/index.ts';
import { hasExtension, LUA_FILTER, typedConfig } from '../../filters/index.ts';
import type { MeshReader } from '../../reads/index.ts';
import type { GuardedView, HttpFilter, ManagerFields } from '../types.ts';
import { FAILURE, JWT_FILTER, PAYLOAD } from './metadata.ts';
import { ambiguityScript } from './one-token.ts';
import { outputHeaders, withoutForgeries } from './output-headers.ts';
import { type TokenRule, tokenRules } from './rules.ts';
import { locationsOf, locationsOfRule } from './token-locations.ts';
import { audienceReplies, checksAudiences } from './wrong-audience.ts';

const { JwtAuthentication } = envoy.extensions.filters.http.jwt_authn.v3;
type Requirement = envoy.extensions.filters.http.jwt_authn.v3.JwtRequirement.Input;

const { Lua } = envoy.extensions.filters.http.lua.v3;

/**
 * Reached only by requests that jwt_authn accepts. One rule's rejection of a token that another rule accepts is
 * removed: it must not count as a failure when authorization refuses the request later (see `wrong-audience.ts`).
 */
const SOURCE = `local function refuse(handle, failure)
  handle:respond({[":status"] = "401", ["www-authenticate"] = 'Bearer error="invalid_token"'}, failure)
end
function envoy_on_request(handle)
  local metadata = handle:streamInfo():dynamicMetadata()
  local seen = metadata:get("${JWT_FILTER}")
  if seen ~= nil and seen["${FAILURE}"] ~= nil then metadata:set("${JWT_FILTER}", "${FAILURE}", {}) end
  if ambiguous(handle:headers()) then return refuse(handle, "Jwt is ambiguous: more than one can be read") end
  local claims = seen ~= nil and seen["${PAYLOAD}"] or nil
  if claims == nil then return end
  local now = os.time()
  if claims["exp"] ~= nil and now >= claims["exp"] then return refuse(handle, "Jwt is expired") end
  if claims["nbf"] ~= nil and now < claims["nbf"] then return refuse(handle, "Jwt not yet valid") end
end
`;

/**
 * Checks the validity period of a verified token again. Envoy's jwt_authn accepts tokens for at least a second longer
 * than they state, and a second before they are valid (RFC 7519 section 4.1.4: "on or after which" a token must not be
 * accepted); this filter, after it, does not. If a request has several tokens, it checks the one whose claims
 * authorization reads. It also refuses requests with an ambiguous token location (see `one-token.ts`). Undefined for an
 * Envoy without the extension, where tokens are valid a second longer.
 */
function jwtExpiryFilter(view: GuardedView, rules: readonly TokenRule[]): HttpFilter[] {
  if (!hasExtension(view, LUA_FILTER)) return [];
  const source = `${ambiguityScript(rules)}${SOURCE}`;
  return [typedConfig(LUA_FILTER, Lua, { defaultSourceCode: { inlineString: source } })];
}

type Provider = envoy.extensions.filters.http.jwt_authn.v3.JwtProvider.Input;

/** Envoy reads 0 as its default of a minute; 1 is the minimum. */
const LEAST_CLOCK_SKEW_SECONDS = 1;

/** Claims that are lists of words by convention (RFC 8693 section 4.2): policies match the single words. */
const WORDS = ['scope', 'permission'];

/** The provider of Envoy's jwt_authn filter for a rule, which reads these of its token locations. */
function providerOf(tokenRule: TokenRule, only: ReadonlySet<string>): Provider {
  const { rule, jwks } = tokenRule;
  const { fromHeaders, fromParams, fromCookies } = locationsOfRule(rule, only);
  const { outputPayloadToHeader = '', outputClaimToHeaders = [], spaceDelimitedClaims = [] } = rule;
  return {
    // Without an issuer, Envoy accepts tokens of any issuer with these keys.
    issuer: rule.issuer ?? '',
    audiences: rule.audiences ?? [],
    // With an empty string, Envoy has no keys and refuses all tokens of the issuer; Envoy does not accept a key set
    // without keys.
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

/** The filters that verify tokens; none if no rule applies to the workload. */
export function tokenFilters(snapshot: MeshReader, view: GuardedView): HttpFilter[] {
  const rules = tokenRules(snapshot, view);
  if (rules.length === 0) return [];
  const providers: Record<string, Provider> = {};
  const requirements = locationsOf(rules).map(({ rules: readers, locations }, index) => {
    const names = readers.map((rule) => {
      const name = index === 0 ? rule.name : `${rule.name}@${index}`;
      providers[name] = providerOf(rule, locations);
      return name;
    });
    return goodOrMissing(names);
  });
  const config = {
    providers,
    // For every path, including paths without a slash at the beginning.
    rules: [{ match: { prefix: '' }, requires: allOf(requirements) }],
    // Browsers send preflight requests without the user's token.
    bypassCorsPreflight: true,
  };
  return [typedConfig(JWT_FILTER, JwtAuthentication, config), ...jwtExpiryFilter(view, rules)];
}

/** Settings of the connection manager for these filters. */
export function tokenManagerFields(snapshot: MeshReader, view: GuardedView): ManagerFields {
  const rules = tokenRules(snapshot, view);
  const localReplyConfig = audienceReplies(view, rules);
  const earlyHeaderMutationExtensions = withoutForgeries(view, rules);
  return {
    ...(localReplyConfig !== undefined && { localReplyConfig }),
    ...(earlyHeaderMutationExtensions.length > 0 && { earlyHeaderMutationExtensions }),
  };
}

/** The token locations of a rule, and the headers in which claims are passed to the application. */
export interface TokenReader {
  /** `namespace/name` of the policy. */
  readonly name: string;
  /** In lower case; `prefix` is the string before a token. */
  readonly headers: readonly { readonly name: string; readonly prefix: string }[];
  readonly cookies: readonly string[];
}

/** For servers that verify no tokens. */
export function tokenReaders(snapshot: MeshReader, policies: GuardedView['policies']): TokenReader[] {
  return tokenRules(snapshot, { policies }).map((rule) => {
    const { fromHeaders, fromCookies } = locationsOfRule(rule.rule);
    const read = fromHeaders.map(({ name, prefix = '' }) => ({ name: name.toLowerCase(), prefix }));
    return {
      name: rule.name.replace(/\[\d+\]$/, ''),
      headers: [...read, ...outputHeaders(rule).map((name) => ({ name, prefix: '' }))],
      cookies: fromCookies,
    };
  });
}

/** Requires a token that one of the providers accepts, or no token in their token locations. */
function goodOrMissing(names: readonly string[]): Requirement {
  const requirements = [...names.map((providerName) => ({ providerName })), { allowMissing: {} }];
  return { requiresAny: { requirements } };
}

/** Envoy requires at least two for a list. */
function allOf(requirements: readonly Requirement[]): Requirement {
  const [first, second] = requirements;
  return first !== undefined && second === undefined ? first : { requiresAll: { requirements } };
}
