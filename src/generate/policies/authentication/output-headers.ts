/**
 * Headers in which the application is told what a token says. jwt_authn removes what clients write there, but only
 * after the route has been chosen, which may have been by such a header; so they are removed before, as the request
 * comes in. With them go those that differ by `_` for `-`: to applications that get headers as variables (CGI, WSGI,
 * Rack) they are the same, `HTTP_X_USER`. So do those of headers that tokens are read from: there, an application could
 * find a token that nobody has looked at.
 */
import { envoy } from '../../../protobuf/index.ts';
import { EARLY_HEADER_MUTATION, hasExtension, typedConfig } from '../../filters/index.ts';
import type { GuardedView } from '../types.ts';
import type { TokenRule } from './rules.ts';
import { placesOfRule } from './token-locations.ts';

const { HeaderMutation } = envoy.extensions.http.early_header_mutation.header_mutation.v3;
type Extension = envoy.config.core.v3.TypedExtensionConfig.Input;

/** The headers of a rule, in lower case. */
export function outputHeaders({ rule }: TokenRule): string[] {
  const { outputPayloadToHeader, outputClaimToHeaders = [] } = rule;
  const names = [outputPayloadToHeader ?? '', ...outputClaimToHeaders.map(({ header }) => header)];
  return names.filter((name) => name !== '').map((name) => name.toLowerCase());
}

/** Of more separators not every mixture is thought of. */
const MAX_MIXED_SEPARATORS = 4;

/** A name as it may be written with `-` and `_`. */
function spellings(name: string): string[] {
  const [first = '', ...others] = name.split(/[-_]/);
  if (others.length > MAX_MIXED_SEPARATORS) return [name, [first, ...others].join('-'), [first, ...others].join('_')];
  return others.reduce((begun, part) => begun.flatMap((each) => [`${each}-${part}`, `${each}_${part}`]), [first]);
}

/** Removes what clients write in the rules' headers, except where tokens are read from. */
export function withoutForgeries(view: GuardedView, rules: readonly TokenRule[]): Extension[] {
  if (!hasExtension(view, EARLY_HEADER_MUTATION)) return [];
  const read = new Set(
    rules.flatMap(({ rule }) => placesOfRule(rule).fromHeaders.map(({ name }) => name.toLowerCase())),
  );
  const all = [...rules.flatMap(outputHeaders), ...read].flatMap(spellings);
  const names = new Set(all.filter((name) => !read.has(name)));
  if (names.size === 0) return [];
  const mutations = [...names].sort().map((remove) => ({ remove }));
  return [typedConfig(EARLY_HEADER_MUTATION, HeaderMutation, { mutations })];
}
