/**
 * Delegation of HTTP routes: a route of a VirtualService (the root) may be replaced by the routes of another one that
 * has no hosts (the delegate). A delegation that cannot be followed is left out and reported, and does not affect the
 * others.
 */
import { keyOf, type ResourceKey, resourceKey } from '../../resources/index.ts';
import { isVisible, normaliseExportTo } from '../common/visibility.ts';
import type { DefinitionContext } from '../services/definitions.ts';
import type { VirtualService } from '../types/types.ts';
import { joinNames, MAX_PAIRS, mergeMatches } from './delegate-matches.ts';

type HttpRoutes = NonNullable<VirtualService['content']['http']>;
type Route = HttpRoutes[number];

/**
 * Maximum number of routes, and of their matches, of a root including those of its delegates, like the limits of one
 * document. Each route may name a delegate of the maximum size.
 */
const MAX_ROUTES = 5000;
const MAX_MATCHES = 10_000;
/** Hosts times matches: each host has its own copies of the routes. */
const MAX_HOST_ROUTES = 100_000;

/** What a delegation reads in addition to the root. */
export interface DelegateContext extends DefinitionContext {
  /** The VirtualService of a key, with the routes' names resolved in its own namespace. */
  readonly delegate: (key: ResourceKey) => { readonly resource: VirtualService; readonly http: HttpRoutes } | undefined;
}

export interface Delegation {
  readonly http: HttpRoutes;
  /** The delegates that the root names, each once. */
  readonly delegates: readonly ResourceKey[];
  /** One line for each delegation that is not in force, and the other documents that it affects. */
  readonly problems: readonly DelegateProblem[];
}

export interface DelegateProblem {
  readonly delegate: ResourceKey | undefined;
  readonly message: string;
}

export function delegates({ content }: VirtualService): boolean {
  return content.http?.some(({ delegate }) => delegate !== undefined) === true;
}

export function isDelegate({ content }: VirtualService): boolean {
  return (content.hosts ?? []).length === 0;
}

/** @param http the root's own routes with names resolved */
export function followDelegates(root: VirtualService, http: HttpRoutes, context: DelegateContext): Delegation {
  const named = new Set<ResourceKey>();
  const problems: DelegateProblem[] = [];
  const routes: Route[] = [];
  let matches = 0;
  const resolved = new Map<ResourceKey, ReturnType<DelegateContext['delegate']>>();
  const delegate = (key: ResourceKey) => {
    if (!resolved.has(key)) resolved.set(key, context.delegate(key));
    return resolved.get(key);
  };
  const work: Work = { ...context, delegate, pairs: MAX_PAIRS };
  const hosts = root.content.hosts?.length ?? 0;
  for (const [index, { delegate: reference, ...route }] of http.entries()) {
    const key = reference && keyOfDelegate(reference, root.meta.namespace);
    if (key !== undefined) named.add(key);
    const at = `${keyOf(root)}: http[${index}]${key === undefined ? '' : ` delegates to ${key}`}`;
    const found = key === undefined ? { routes: [route], lost: [] } : followed(root, route, key, work);
    if (typeof found === 'string') {
      problems.push({ delegate: undefined, message: `${at}, ${found}; the route is ignored` });
      continue;
    }
    const more = found.routes.reduce((sum, { match }) => sum + Math.max(1, match?.length ?? 0), 0);
    const [all, allMatches] = [routes.length + found.routes.length, matches + more];
    if (key !== undefined && (all > MAX_ROUTES || allMatches > MAX_MATCHES || hosts * allMatches > MAX_HOST_ROUTES)) {
      problems.push({
        delegate: key,
        message: `${at}, but the result would have too many routes; the route is ignored`,
      });
      continue;
    }
    for (const each of found.routes) routes.push(each);
    matches = allMatches;
    if (found.lost.length === 0) continue;
    const message = `${at}; some routes of the delegate are ignored: they match other requests or delegate themselves`;
    problems.push({ delegate: key, message: `${message}: ${listed(found.lost)}` });
  }
  return { http: routes, delegates: [...named], problems };
}

function keyOfDelegate({ name = '', namespace }: NonNullable<Route['delegate']>, rootNamespace: string): ResourceKey {
  return resourceKey('VirtualService', namespace || rootNamespace, name);
}

/** The remaining budget of work for one root. */
interface Work extends DelegateContext {
  /** The number of pairs of matches, of the root and of a delegate, that may still be compared. */
  pairs: number;
}

/** The delegate's routes that replace the root's route, or why there are none. */
function followed(
  root: VirtualService,
  route: Route,
  key: ResourceKey,
  work: Work,
): { readonly routes: readonly Route[]; readonly lost: readonly number[] } | string {
  const delegate = work.delegate(key);
  // The message must not reveal whether a document exists that is not exported.
  const unknown = `which does not exist or is not exported to ${root.meta.namespace}`;
  if (delegate === undefined) return unknown;
  const { resource, http } = delegate;
  const { namespace } = resource.meta;
  const exportTo = normaliseExportTo(resource.content.exportTo, work.mesh.defaultVirtualServiceExportTo, namespace);
  if (!isVisible(exportTo, namespace, root.meta.namespace)) return unknown;
  if (!isDelegate(resource)) return 'which has hosts and is not a delegate';
  const parts = http.reduce((sum, { match }) => sum + Math.max(1, match?.length ?? 0), 0);
  const pairs = Math.max(1, route.match?.length ?? 0) * parts;
  if (pairs > work.pairs) return 'but the result would have too many matches';
  work.pairs -= pairs;
  const merged = http.map((part) => mergeRoute(route, part));
  return {
    routes: merged.filter((each) => each !== undefined),
    lost: merged.flatMap((each, index) => (each === undefined ? [index] : [])),
  };
}

/** Undefined if the delegate's route matches requests that the root's route does not match, or delegates itself. */
function mergeRoute(root: Route, { delegate: further, ...part }: Route): Route | undefined {
  if (further !== undefined) return undefined;
  const match = mergeMatches(root.match, part.match);
  if (match === undefined) return undefined;
  const name = joinNames(root.name, part.name);
  const {
    route: _route,
    redirect: _redirect,
    directResponse: _response,
    mirror,
    mirrors,
    mirrorPercentage,
    ...rest
  } = root;
  const mirroring = part.mirror === undefined && part.mirrors === undefined ? { mirror, mirrors } : {};
  return defined<Route>({
    ...rest,
    ...mirroring,
    mirrorPercentage,
    ...part,
    match: match.length === 0 ? undefined : match,
    name,
  });
}

/** Maximum number of routes in a message. */
const MAX_LISTED = 10;

function listed(places: readonly number[]): string {
  const more = places.length > MAX_LISTED ? ` and ${places.length - MAX_LISTED} more` : '';
  return (
    places
      .slice(0, MAX_LISTED)
      .map((place) => `http[${place}]`)
      .join(', ') + more
  );
}

function defined<T extends object>(fields: { readonly [K in keyof T]?: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
