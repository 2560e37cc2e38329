/**
 * Where requests carry tokens, and which rules look there. Places at which the same rules look are taken together:
 * there, a token has to be good for one of these rules. Envoy checks all tokens that it finds in a provider's places,
 * so two sets of places with a rule in common, but not all, have to be told apart, or one rule's token would be a bad
 * one to the other.
 */
import type { JwtRule } from '../../../resources/schemas.ts';
import type { TokenRule } from './rules.ts';

export interface Places {
  readonly fromHeaders: readonly { readonly name: string; readonly prefix?: string | undefined }[];
  readonly fromParams: readonly string[];
  readonly fromCookies: readonly string[];
}

/** Where a rule looks that does not say (RFC 6750 sections 2.1 and 2.3). */
const DEFAULT_PLACES: Places = {
  fromHeaders: [{ name: 'Authorization', prefix: 'Bearer ' }],
  fromParams: ['access_token'],
  fromCookies: [],
};

/** Places, and who looks there. */
export interface SharedPlaces {
  readonly rules: readonly TokenRule[];
  /** Names of {@link placeName}. */
  readonly places: ReadonlySet<string>;
}

/** Where a rule looks, of the places of the set, or of all of them. */
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

/** A header is one place whatever stands before the token in it: names of headers know no case, the others do. */
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

/** All places, those with the same rules together, in the order in which the rules name them. */
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
