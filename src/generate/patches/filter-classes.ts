/**
 * The position of an added filter with a class (`patch.filterClass`): after authentication, after authorization, or
 * before statistics. Filters of one class stay in the order of their patches. Source:
 * https://istio.io/latest/docs/reference/config/networking/envoy-filter/#EnvoyFilter-Patch-FilterClass
 */
import { LUA_FILTER, ROUTER_FILTER } from '../filters/index.ts';
import type { FilterClass } from './types.ts';

interface Named {
  readonly name?: string | null | undefined;
}

const JWT_FILTER = 'envoy.filters.http.jwt_authn';
const AUTHORIZATION: ReadonlySet<string> = new Set(
  ['http', 'network'].flatMap((kind) => [`envoy.filters.${kind}.rbac`, `envoy.filters.${kind}.ext_authz`]),
);
/** Filters of Istio's proxies that count requests and connections by peer. */
const STATISTICS = 'istio.stats';

/** The index at which a filter of a class is inserted. */
export function placeOfClass(
  list: readonly Named[],
  filterClass: FilterClass,
  added: ReadonlyMap<Named, FilterClass>,
): number {
  const last = (isOne: (filter: Named) => boolean): number => list.findLastIndex(isOne) + 1;
  const isAuthenticator = (filter: Named) => filter.name === JWT_FILTER || added.get(filter) === 'AUTHN';
  switch (filterClass) {
    case 'AUTHN': {
      const place = last(isAuthenticator);
      // Generation's own companion of the filter, which interprets its result.
      const isCompanion = list[place]?.name === LUA_FILTER && list[place - 1]?.name === JWT_FILTER;
      return isCompanion ? place + 1 : place;
    }
    case 'AUTHZ': {
      const isAuthorizer = (filter: Named) => AUTHORIZATION.has(filter.name ?? '') || added.get(filter) === 'AUTHZ';
      const place = last(isAuthorizer);
      return place > 0 ? place : placeOfClass(list, 'AUTHN', added);
    }
    case 'STATS': {
      const first = list.findIndex(({ name }) => name === STATISTICS);
      if (first >= 0) return first;
      const router = list.findIndex(({ name }) => name === ROUTER_FILTER);
      // The last network filter is the one that forwards.
      return router >= 0 ? router : Math.max(list.length - 1, 0);
    }
  }
}
