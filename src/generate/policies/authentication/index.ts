/**
 * End users' tokens: RequestAuthentication as Envoy's jwt_authn filter. A request without token passes, and so does one
 * whose token is valid for some rule; every other token in a token location of a rule is answered with 401. Whether a
 * token is required is up to authorization.
 */

import { envoy } from '../../../protobuf/index.ts';
import { typedConfig } from '../../filters/index.ts';
import type { MeshReader } from '../../reads/index.ts';
import type { GuardedView, HttpFilter, ManagerFields } from '../types.ts';
import { jwtExpiryFilter } from './jwt-expiry-filter.ts';
import { JWT_FILTER } from './metadata.ts';
import { outputHeaders, withoutForgeries } from './output-headers.ts';
import { type Provider, providerOf } from './provider.ts';
import { tokenRules } from './rules.ts';
import { locationsOf, locationsOfRule } from './token-locations.ts';
import { audienceReplies } from './wrong-audience.ts';

const { JwtAuthentication } = envoy.extensions.filters.http.jwt_authn.v3;
type Requirement = envoy.extensions.filters.http.jwt_authn.v3.JwtRequirement.Input;

/** The filters that verify tokens; none where no rule applies to the workload. */
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
    // For every path, also those without a slash at the beginning.
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

/** Where a rule reads tokens, and the headers that tell the application about them. */
export interface TokenReader {
  /** `namespace/name` of the policy. */
  readonly name: string;
  /** In lower case; `prefix`: what precedes a token there. */
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

/** A token that one of the providers accepts, or none in their token locations. */
function goodOrMissing(names: readonly string[]): Requirement {
  const requirements = [...names.map((providerName) => ({ providerName })), { allowMissing: {} }];
  return { requiresAny: { requirements } };
}

/** Envoy requires at least two for a list. */
function allOf(requirements: readonly Requirement[]): Requirement {
  const [first, second] = requirements;
  return first !== undefined && second === undefined ? first : { requiresAll: { requirements } };
}
