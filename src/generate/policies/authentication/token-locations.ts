/**
 * Token locations of requests, and which rules read them. Locations with the same rules form a group: there, a token
 * must be valid for one of these rules. Envoy verifies all tokens that it finds in a provider's locations. Two groups
 * with some, but not all, rules in common therefore need separate providers, or one rule's token would be invalid for
 * the other.
 */
import type { JwtRule } from '../../../resources/index.ts';
import type { TokenRule } from './rules.ts';

export interface Places {
  readonly fromHeaders: readonly { readonly name: string; readonly prefix?: string | undefined }[];
  readonly fromParams: readonly string[];
  readonly fromCookies: readonly string[];
}

/** The default token locations of a rule (RFC 6750 sections 2.1 and 2.3). */
const DEFAULT_PLACES: Places = {
  fromHeaders: [{ name: 'Authorization', prefix: 'Bearer ' }],
  fromParams: ['access_token'],
  fromCookies: [],
};

/** Token locations and the rules that read them. */
export interface SharedPlaces {
  readonly rules: readonly TokenRule[];
  /** Names of {@link placeName}. */
  readonly places: ReadonlySet<string>;
}

/** A rule's token locations in the group, or all of them. */
export function placesOfRule(
  { fromHeaders = [], fromParams = [], fromCookies = [] }: JwtRule,
  only?: ReadonlySet<string>,
): Places {
  const said = fromHeaders.length + fromParams.length + fromCookies.length > 0;
  const all = said ? { fromHeaders, fromParams, fromCookies } : DEFAULT_PLACES;
  if (only === undefined) return all;
  return {
    fromHeaders: all.fromHeaders.filter(({ name }) => only.has(placeName('header', name))),
    fromParams: all.fromParams.filter((name) => only.has(placeName('param', name))),
    fromCookies: all.fromCookies.filter((name) => only.has(placeName('cookie', name))),
  };
}

/**
 * A header is one location, whatever the prefix of the token in it: names of headers are case-insensitive, the others
 * are not.
 */
function placeName(kind: 'header' | 'param' | 'cookie', name: string): string {
  return `${kind} ${kind === 'header' ? name.toLowerCase() : name}`;
}

function placeNames(rule: JwtRule): string[] {
  const { fromHeaders, fromParams, fromCookies } = placesOfRule(rule);
  return [
    ...fromHeaders.map(({ name }) => placeName('header', name)),
    ...fromParams.map((name) => placeName('param', name)),
    ...fromCookies.map((name) => placeName('cookie', name)),
  ];
}

/** All locations, grouped by equal rules, in the order in which the rules name them. */
export function placesOf(rules: readonly TokenRule[]): SharedPlaces[] {
  const lookers = new Map<string, Set<TokenRule>>();
  for (const each of rules) {
    for (const place of placeNames(each.rule)) {
      const looking = lookers.get(place) ?? new Set();
      lookers.set(place, looking.add(each));
    }
  }
  const shared = new Map<string, { rules: readonly TokenRule[]; places: Set<string> }>();
  for (const [place, looking] of lookers) {
    const found = [...looking];
    const key = found.map(({ name }) => name).join(' ');
    const known = shared.get(key) ?? { rules: found, places: new Set() };
    known.places.add(place);
    shared.set(key, known);
  }
  return [...shared.values()];
}
