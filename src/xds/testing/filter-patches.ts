/** Test support: patches of EnvoyFilters for outbound resources of the namespace `shop`. */

export const FILTERS = ['none', 'header', 'other header', 'one host', 'timeout', 'misfit', 'cluster'] as const;
export type Filter = (typeof FILTERS)[number];

const context = 'SIDECAR_OUTBOUND';
const withoutHeader = (name: string) => ({
  applyTo: 'VIRTUAL_HOST',
  match: { context },
  patch: { operation: 'MERGE', value: { response_headers_to_remove: [name] } },
});
/** Virtual hosts are generated for all services while one of these is there, but for that of clusters. */
export const PATCHES: Readonly<Record<Filter, object | undefined>> = {
  none: undefined,
  header: withoutHeader('x-one'),
  'other header': withoutHeader('x-other'),
  'one host': {
    ...withoutHeader('x-one'),
    match: { context, routeConfiguration: { vhost: { name: 's0.shop.svc.cluster.local:80' } } },
  },
  timeout: {
    applyTo: 'HTTP_ROUTE',
    match: { context },
    patch: { operation: 'MERGE', value: { route: { timeout: '7s' } } },
  },
  misfit: { ...withoutHeader('x-one'), patch: { operation: 'MERGE', value: { routes: [{ match: { prefix: '/' } }] } } },
  cluster: { applyTo: 'CLUSTER', match: { context }, patch: { operation: 'MERGE', value: { connect_timeout: '3s' } } },
};
