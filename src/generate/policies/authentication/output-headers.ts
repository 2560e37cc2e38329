/**
 * Headers that pass a token's claims to the application. jwt_authn removes clients' values, but only after the route
 * has been chosen, possibly by such a header; they are therefore removed before, as the request comes in. So are
 * headers that differ by `_` for `-`: for applications that receive headers as variables (CGI, WSGI, Rack) they are the
 * same, `HTTP_X_USER`. So are other spellings of headers that are token locations: an application could find an
 * unverified token there.
 */
import { envoy } from '../../../protobuf/index.ts';
import { EARLY_HEADER_MUTATION, hasExtension, typedConfig } from '../../filters/index.ts';
import type { GuardedView } from '../types.ts';
import type { TokenRule } from './rules.ts';
import { locationsOfRule } from './token-locations.ts';

const { HeaderMutation } = envoy.extensions.http.early_header_mutation.header_mutation.v3;
type Extension = envoy.config.core.v3.TypedExtensionConfig.Input;

export function outputHeaders({ rule }: TokenRule): string[] {
  const { outputPayloadToHeader, outputClaimToHeaders = [] } = rule;
  const names = [outputPayloadToHeader ?? '', ...outputClaimToHeaders.map(({ header }) => header)];
  return names.filter((name) => name !== '').map((name) => name.toLowerCase());
}

/** With more separators not every mixture is listed. */
const MAX_MIXED_SEPARATORS = 4;

/** Spellings of a name with `-` and `_`. */
function spellings(name: string): string[] {
  const [first = '', ...others] = name.split(/[-_]/);
  if (others.length > MAX_MIXED_SEPARATORS) return [name, [first, ...others].join('-'), [first, ...others].join('_')];
  return others.reduce((begun, part) => begun.flatMap((each) => [`${each}-${part}`, `${each}_${part}`]), [first]);
}

/** Removes clients' values of the rules' headers, except those from which tokens are read. */
export function withoutForgeries(view: GuardedView, rules: readonly TokenRule[]): Extension[] {
  if (!hasExtension(view, EARLY_HEADER_MUTATION)) return [];
  const read = new Set(
    rules.flatMap(({ rule }) => locationsOfRule(rule).fromHeaders.map(({ name }) => name.toLowerCase())),
  );
  const all = [...rules.flatMap(outputHeaders), ...read].flatMap(spellings);
  const names = new Set(all.filter((name) => !read.has(name)));
  if (names.size === 0) return [];
  const mutations = [...names].sort().map((remove) => ({ remove }));
  return [typedConfig(EARLY_HEADER_MUTATION, HeaderMutation, { mutations })];
}
