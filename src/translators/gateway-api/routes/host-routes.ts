/** The routes of a hostname of a listener, with all of their matches in order of precedence. */
import type { HttpRoute, ResourceKey } from '../../../resources/index.ts';
import { comparePrecedence, compareRoutes } from '../precedence.ts';
import type { ListenerScheme } from './paths.ts';
import type { TranslatedRoute } from './routes.ts';
import { type RankedMatch, routeAt } from './rules.ts';

export interface HostRules {
  readonly http: HttpRoute[];
  /** Equal only for equal routes. */
  readonly digest: string;
}

export class HostRoutes {
  readonly #routes = new Map<ResourceKey, TranslatedRoute>();
  /** The matches of each route that are in `#merged`. */
  readonly #mergedOf = new Map<ResourceKey, readonly RankedMatch[]>();
  #merged: readonly RankedMatch[] = [];
  #rules: HostRules | undefined;

  set(route: TranslatedRoute): void {
    this.#routes.set(route.key, route);
  }

  delete(key: ResourceKey): void {
    this.#routes.delete(key);
  }

  get size(): number {
    return this.#routes.size;
  }

  /** In the order of their precedence. */
  get inOrder(): readonly TranslatedRoute[] {
    return [...this.#routes.values()].sort((a, b) => compareRoutes(a, b) || (a.key < b.key ? -1 : 1));
  }

  rules(listener: ListenerScheme): HostRules {
    const ofRoutes = this.inOrder.map(({ created, compiled }) => [created, compiled.digest]);
    const digest = JSON.stringify([listener, ofRoutes]);
    if (this.#rules?.digest === digest) return this.#rules;
    const http = this.#merge().flatMap((match) => {
      const route = this.#routes.get(match.key)?.compiled.routeOf(match);
      return route === undefined ? [] : routeAt(route, listener);
    });
    this.#rules = { http, digest };
    return this.#rules;
  }

  /**
   * Replaces the matches of changed routes. The matches of each route are sorted, and so are the unchanged ones:
   * sorting takes time proportional to their number and the logarithm of the number of sorted runs (TimSort).
   */
  #merge(): readonly RankedMatch[] {
    const gone = new Set<ResourceKey>();
    for (const [key, matches] of this.#mergedOf) {
      if (this.#routes.get(key)?.compiled.matches === matches) continue;
      gone.add(key);
      this.#mergedOf.delete(key);
    }
    const added: (readonly RankedMatch[])[] = [];
    for (const [key, { compiled }] of this.#routes) {
      if (this.#mergedOf.has(key)) continue;
      this.#mergedOf.set(key, compiled.matches);
      added.push(compiled.matches);
    }
    if (gone.size === 0 && added.length === 0) return this.#merged;
    const kept = gone.size === 0 ? this.#merged : this.#merged.filter(({ key }) => !gone.has(key));
    this.#merged = [kept, ...added].flat().sort(comparePrecedence);
    return this.#merged;
  }
}
