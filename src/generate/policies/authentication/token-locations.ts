/**
 * The token locations of requests, and the rules that read them. Locations with the same rules form a group: there, a
 * token must be valid for one of these rules. Envoy verifies all tokens that it finds in a provider's locations. Two
 * groups with some, but not all, rules in common therefore need separate providers, or one rule's token would be
 * invalid for the other.
 */
import type { JwtRule } from '../../../resources/index.ts';
import type { TokenRule } from './rules.ts';

export interface TokenLocations {
  readonly fromHeaders: readonly { readonly name: string; readonly prefix?: string | undefined }[];
  readonly fromParams: readonly string[];
  readonly fromCookies: readonly string[];
}

/** The default token locations of a rule (RFC 6750 sections 2.1 and 2.3). */
const DEFAULT_LOCATIONS: TokenLocations = {
  fromHeaders: [{ name: 'Authorization', prefix: 'Bearer ' }],
  fromParams: ['access_token'],
  fromCookies: [],
};

/** Token locations and the rules that read them. */
export interface SharedLocations {
  readonly rules: readonly TokenRule[];
  /** Names of {@link locationName}. */
  readonly locations: ReadonlySet<string>;
}

/** A rule's token locations in the group, or all of them. */
export function locationsOfRule(
  { fromHeaders = [], fromParams = [], fromCookies = [] }: JwtRule,
  only?: ReadonlySet<string>,
): TokenLocations {
  const hasOwn = fromHeaders.length + fromParams.length + fromCookies.length > 0;
  const all = hasOwn ? { fromHeaders, fromParams, fromCookies } : DEFAULT_LOCATIONS;
  if (only === undefined) return all;
  return {
    fromHeaders: all.fromHeaders.filter(({ name }) => only.has(locationName('header', name))),
    fromParams: all.fromParams.filter((name) => only.has(locationName('param', name))),
    fromCookies: all.fromCookies.filter((name) => only.has(locationName('cookie', name))),
  };
}

/**
 * The name of a location. A header is one location, with any prefix of tokens. Names of headers are case-insensitive,
 * the others are case-sensitive.
 */
function locationName(kind: 'header' | 'param' | 'cookie', name: string): string {
  return `${kind} ${kind === 'header' ? name.toLowerCase() : name}`;
}

function locationNames(rule: JwtRule): string[] {
  const { fromHeaders, fromParams, fromCookies } = locationsOfRule(rule);
  return [
    ...fromHeaders.map(({ name }) => locationName('header', name)),
    ...fromParams.map((name) => locationName('param', name)),
    ...fromCookies.map((name) => locationName('cookie', name)),
  ];
}

/** All locations, grouped by equal rules, in the order in which the rules name them. */
export function locationsOf(rules: readonly TokenRule[]): SharedLocations[] {
  const readersByLocation = new Map<string, Set<TokenRule>>();
  for (const each of rules) {
    for (const location of locationNames(each.rule)) {
      const readers = readersByLocation.get(location) ?? new Set();
      readersByLocation.set(location, readers.add(each));
    }
  }
  const shared = new Map<string, { rules: readonly TokenRule[]; locations: Set<string> }>();
  for (const [location, readers] of readersByLocation) {
    const found = [...readers];
    const key = found.map(({ name }) => name).join(' ');
    const known = shared.get(key) ?? { rules: found, locations: new Set() };
    known.locations.add(location);
    shared.set(key, known);
  }
  return [...shared.values()];
}
