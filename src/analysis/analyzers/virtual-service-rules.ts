/** Routes and matches of a VirtualService that no request reaches, because earlier ones take them all. */
import type { HttpMatch, Resource } from '../../resources/index.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

type VirtualService = Resource<'VirtualService'>;

/** A rule of any protocol. */
interface Rule {
  readonly name?: string | undefined;
  readonly match?: readonly object[] | undefined;
}

export function* unreachableRules(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('VirtualService')) {
    yield undefined;
    const { http = [], tls = [], tcp = [] } = document.content;
    yield* unreachable(mesh, document, 'http', http);
    yield* unreachable(mesh, document, 'tls', tls);
    yield* unreachable(mesh, document, 'tcp', tcp);
  }
}

function* unreachable(
  mesh: AnalyzedMesh,
  document: VirtualService,
  protocol: 'http' | 'tls' | 'tcp',
  rules: readonly Rule[],
): Findings {
  const earlier = new EarlierMatches();
  let all: string | undefined;
  for (const [index, rule] of rules.entries()) {
    yield undefined;
    const place = `${protocol}[${index}]${rule.name === undefined ? '' : ` (${rule.name})`}`;
    const matches = rule.match ?? [];
    if (all !== undefined && (matches.length === 0 || protocol === 'http')) {
      yield mesh.finding('IST0130', document, `${place}: never reached, ${all} matches every ${what(protocol)}`);
      continue;
    }
    if (matches.length === 0) all = place;
    let covered = 0;
    for (const [at, match] of matches.entries()) {
      yield undefined;
      const by = earlier.covering(match);
      if (by !== undefined) {
        covered++;
        yield mesh.finding('IST0131', document, `${place}: match[${at}] is never used, ${by} matches the same before`);
      } else earlier.add(match, `${place} match[${at}]`);
    }
    if (matches.length > 0 && covered === matches.length) {
      yield mesh.finding('IST0130', document, `${place}: never reached, earlier rules match all that it matches`);
    }
  }
}

function what(protocol: 'http' | 'tls' | 'tcp'): string {
  return protocol === 'http' ? 'request' : 'connection';
}

interface Prefixes {
  /** Where the match with a prefix is. */
  readonly places: Map<string, string>;
  readonly lengths: Set<number>;
}

/**
 * Matches so far: equal ones, and prefixes of paths with equal further conditions or without any. Looking a match up
 * takes one step for each length of a prefix, however many prefixes there are and however long its path is.
 */
class EarlierMatches {
  readonly #equal = new Map<string, string>();
  /** By further conditions: by path prefix. */
  readonly #prefixes = new Map<string, Prefixes>();

  add(match: object, place: string): void {
    const { uri, rest } = partsOf(match);
    this.#equal.set(JSON.stringify([uri, rest]), place);
    // Without a condition on the path, a match has that of every path.
    const prefix = uri === undefined ? '' : 'prefix' in uri ? uri.prefix : undefined;
    if (prefix === undefined) return;
    const key = JSON.stringify(rest);
    const known = this.#prefixes.get(key) ?? { places: new Map(), lengths: new Set() };
    if (!known.places.has(prefix)) known.places.set(prefix, place);
    known.lengths.add(prefix.length);
    this.#prefixes.set(key, known);
  }

  /** Where an earlier match is that matches at least as much. */
  covering(match: object): string | undefined {
    const { uri, rest } = partsOf(match);
    const equal = this.#equal.get(JSON.stringify([uri, rest]));
    if (equal !== undefined) return equal;
    for (const conditions of [rest, {}]) {
      const prefixes = this.#prefixes.get(JSON.stringify(conditions));
      const found = prefixes && coveringPrefix(prefixes, uri);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

function coveringPrefix({ places, lengths }: Prefixes, uri: HttpMatch['uri']): string | undefined {
  const path = uri === undefined ? '' : 'exact' in uri ? uri.exact : 'prefix' in uri ? uri.prefix : '';
  for (const length of lengths) {
    const found = length > path.length ? undefined : places.get(path.slice(0, length));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The condition on the path, and the others, sorted, without names. */
function partsOf(match: object): { readonly uri: HttpMatch['uri']; readonly rest: object } {
  const { uri, name: _name, statPrefix: _statPrefix, ...rest } = match as HttpMatch;
  const sorted = Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1));
  return { uri, rest: Object.fromEntries(sorted) };
}
