/** Patches of route configurations, their virtual hosts and routes. */
import { encode, envoy } from '../../protobuf/index.ts';
import { type EnvoyConfigMatch, PATCHED_MESSAGES } from '../../resources/index.ts';
import { parseOutboundRouteName } from '../common/index.ts';
import type { GeneratedResource } from '../types.ts';
import { mergeValue } from './merge.ts';
import { combination, combinations, type PatchIndex, type PatchKeys } from './patch-index.ts';
import { type ItemPatcher, patchItem, patchList } from './patch-list.ts';
import type { Patches } from './patches.ts';
import { labelsOf, misfit, type Patch, type PatchContext } from './types.ts';

const { Route, RouteConfiguration, VirtualHost } = envoy.config.route.v3;
type Route = envoy.config.route.v3.Route.Input;
type RouteConfiguration = envoy.config.route.v3.RouteConfiguration.Input;
type VirtualHost = envoy.config.route.v3.VirtualHost.Input;
type RoutesMatch = EnvoyConfigMatch['routeConfiguration'];

/** The route configurations after the patches; unchanged ones are the same objects. */
export function patchRouteConfigurations(
  resources: readonly GeneratedResource[],
  patches: Patches,
  context: PatchContext,
): readonly GeneratedResource[] {
  return resources.map((resource) => {
    const { name, refs } = resource;
    if (!TARGETS.some((target) => matching(patches, target, name, context).length > 0)) return resource;
    const before: RouteConfiguration = RouteConfiguration.decode(resource.bytes);
    const after = before.vhds ? patchRest(before, patches, context) : patchRouteConfiguration(before, patches, context);
    return after === before ? resource : { name, bytes: encode(RouteConfiguration, after), refs };
  });
}

const TARGETS = ['ROUTE_CONFIGURATION', 'VIRTUAL_HOST', 'HTTP_ROUTE'] as const;

/** The patches for a route configuration, its virtual hosts and their routes. */
export function patchesOfRoutes(name: string, patches: Patches, context: PatchContext) {
  const [ofConfiguration = [], ofHosts = [], ofRoutes = []] = TARGETS.map((target) =>
    matching(patches, target, name, context),
  );
  return { ofConfiguration, ofHosts, ofRoutes };
}

/** The route configuration after the patches; the same object if it is unchanged. */
export function patchRouteConfiguration(
  routes: RouteConfiguration,
  patches: Patches,
  context: PatchContext,
): RouteConfiguration {
  const name = routes.name ?? '';
  const { ofConfiguration, ofHosts, ofRoutes } = patchesOfRoutes(name, patches, context);
  const merged = ofConfiguration.reduce(mergeConfiguration, routes);
  const before = merged.virtualHosts ?? [];
  const virtualHosts = patchList(before, patches.index(ofHosts, HOST_KEYS), hostPatcher(ofRoutes, patches));
  if (virtualHosts !== routes.virtualHosts) {
    const repeated = repeatedDomain(virtualHosts.map(({ domains }) => domains ?? []));
    if (repeated !== undefined) {
      const labels = labelsOf([...ofHosts, ...ofConfiguration]);
      throw misfit(labels, `the route configuration ${name} would have the domain ${repeated} twice`);
    }
  }
  return virtualHosts === before ? merged : { ...merged, virtualHosts };
}

/** The same for a route configuration whose virtual hosts are separate resources, including those that patches add. */
function patchRest(routes: RouteConfiguration, patches: Patches, context: PatchContext): RouteConfiguration {
  const { ofConfiguration } = patchesOfRoutes(routes.name ?? '', patches, context);
  if (ofConfiguration.length === 0) return routes;
  return { ...ofConfiguration.reduce(mergeConfiguration, routes), virtualHosts: [] };
}

function hostPatcher(ofRoutes: readonly Patch[], patches: Patches): ItemPatcher<VirtualHost> {
  const routesByHost = patches.index(ofRoutes, HOST_KEYS);
  return {
    matches: (host, { match }) => isHost(host, match.routeConfiguration),
    namesItem: () => false,
    merge: (host, patch) =>
      mergeValue<VirtualHost>(PATCHED_MESSAGES.VIRTUAL_HOST, host, VirtualHost.decode(patch.value), patch),
    decode: (value) => VirtualHost.decode(value),
    inside: (host) => patchRoutes(host, routesByHost, patches),
  };
}

/** Patches one virtual host: returns the same object if it is unchanged, and undefined if it is removed. */
export function patchHost(
  ofHosts: readonly Patch[],
  ofRoutes: readonly Patch[],
  patches: Patches,
): (host: VirtualHost) => VirtualHost | undefined {
  const index = patches.index(ofHosts, HOST_KEYS);
  const patcher = hostPatcher(ofRoutes, patches);
  return (host) => patchItem(host, index, patcher);
}

function matching(
  patches: Patches,
  target: (typeof TARGETS)[number],
  name: string,
  context: PatchContext,
): readonly Patch[] {
  const found = patches.indexOf(target, CONFIGURATION_KEYS).for({ name, context });
  return found.filter(({ match }) => isConfiguration(name, context, match.routeConfiguration));
}

/** Keys: the name and port of the route configuration in the patch's match. */
const CONFIGURATION_KEYS: PatchKeys<{ readonly name: string; readonly context: PatchContext }> = {
  keyOf: ({ match: { routeConfiguration = {} } }) =>
    combination(routeConfiguration.name, routeConfiguration.portNumber),
  keysOf: ({ name, context }) => {
    const port = context === 'GATEWAY' ? GATEWAY_ROUTES.exec(name)?.groups?.port : String(parsePort(name));
    return combinations(name, port ?? '');
  },
};

/** Keys: the name and domain of the virtual host in the patch's match. */
const HOST_KEYS: PatchKeys<VirtualHost> = {
  keyOf: ({ match }) => {
    const { name, domainName } = match.routeConfiguration?.vhost ?? {};
    return combination(name, domainName);
  },
  keysOf: ({ name, domains }) => ['', ...(domains ?? [])].flatMap((domain) => combinations(name ?? '', domain)),
};

/** Keys: the name of the route in the patch's match. */
const ROUTE_KEYS: PatchKeys<Route> = {
  keyOf: ({ match }) => match.routeConfiguration?.vhost?.route?.name ?? '',
  keysOf: ({ name }) => ['', name ?? ''],
};

const GATEWAY_ROUTES = /^https?\.(?<port>\d+)(?:\.(?<portName>.+)\.(?<gateway>[^.]+)\.(?<namespace>[^.]+))?$/;

function isConfiguration(name: string, context: PatchContext, match: RoutesMatch): boolean {
  if (match === undefined) return true;
  if (match.name && match.name !== name) return false;
  if (context !== 'GATEWAY') return match.portNumber === undefined || match.portNumber === parsePort(name);
  const { port, portName = '', gateway, namespace } = GATEWAY_ROUTES.exec(name)?.groups ?? {};
  if (match.portNumber !== undefined && String(match.portNumber) !== port) return false;
  if (match.portName && match.portName !== portName) return false;
  return !match.gateway || match.gateway === `${namespace}/${gateway}`;
}

const INBOUND_ROUTES = /^inbound\|(\d+)\|/;

function parsePort(name: string): number {
  const inbound = INBOUND_ROUTES.exec(name)?.[1];
  return inbound === undefined ? parseOutboundRouteName(name).port : Number(inbound);
}

function isHost({ name, domains }: VirtualHost, match: RoutesMatch): boolean {
  const vhost = match?.vhost;
  if (vhost?.name && vhost.name !== name) return false;
  return !vhost?.domainName || domains?.includes(vhost.domainName) === true;
}

function mergeConfiguration(routes: RouteConfiguration, from: Patch): RouteConfiguration {
  const { label, value } = from;
  const patch: RouteConfiguration = RouteConfiguration.decode(value);
  if (patch.name && patch.name !== routes.name) {
    throw misfit(label, `a patch cannot rename the route configuration ${routes.name}, because listeners refer to it`);
  }
  return mergeValue(PATCHED_MESSAGES.ROUTE_CONFIGURATION, routes, patch, from);
}

function patchRoutes(host: VirtualHost, byHost: PatchIndex<VirtualHost>, patches: Patches): VirtualHost {
  const before = host.routes ?? [];
  const ofHost = byHost.for(host).filter(({ match }) => isHost(host, match.routeConfiguration));
  const routes = patchList(before, patches.index(ofHost, ROUTE_KEYS), {
    matches: isRoute,
    namesItem: ({ match }) => match.routeConfiguration?.vhost?.route !== undefined,
    merge: (route, patch) => mergeValue<Route>(PATCHED_MESSAGES.HTTP_ROUTE, route, Route.decode(patch.value), patch),
    decode: (value) => Route.decode(value),
  });
  return routes === before ? host : { ...host, routes };
}

function isRoute(route: Route, { match }: Patch): boolean {
  const { name, action = 'ANY' } = match.routeConfiguration?.vhost?.route ?? {};
  if (name && name !== route.name) return false;
  switch (action) {
    case 'ANY':
      return true;
    case 'ROUTE':
      return Boolean(route.route);
    case 'REDIRECT':
      return Boolean(route.redirect);
    case 'DIRECT_RESPONSE':
      return Boolean(route.directResponse);
  }
}

/** A repeated domain, because of which Envoy refuses the route configuration; undefined if there is none. */
export function repeatedDomain(domains: readonly (readonly string[])[]): string | undefined {
  const seen = new Set<string>();
  for (const ofHost of domains) {
    for (const domain of ofHost) {
      const text = domain.toLowerCase();
      if (seen.has(text)) return domain;
      seen.add(text);
    }
  }
  return undefined;
}
