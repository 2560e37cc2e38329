/**
 * Patches of virtual hosts that are resources of their own (VHDS). They change what they match; all other virtual hosts
 * keep their bytes. Results are cached by virtual host, because a large route configuration has thousands of them and
 * an edit of the mesh changes few.
 */
import type { Memos } from '../../core/memo.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import type { GeneratedResource, Unit } from '../types.ts';
import { isMerge } from './merge.ts';
import type { Patches } from './patches.ts';
import { patchesOfRoutes, patchHost, repeatedDomain } from './routes.ts';
import { labelsOf, misfit, type Patch, type PatchContext } from './types.ts';

const { RouteConfiguration, VirtualHost } = envoy.config.route.v3;
type VirtualHost = envoy.config.route.v3.VirtualHost.Input;

/**
 * The virtual hosts of a route configuration after the patches, the same objects where these change nothing.
 *
 * @param routes name of the route configuration
 */
export function patchDiscoveredHosts(
  resources: readonly GeneratedResource[],
  routes: Unit,
  patches: Patches,
  context: PatchContext,
  memos: Memos,
): readonly GeneratedResource[] {
  // The route configuration does not exist, or has its virtual hosts itself.
  if (resources.length === 0) return resources;
  const { ofConfiguration, ofHosts, ofRoutes } = patchesOfRoutes(routes, patches, context);
  if (ofConfiguration.length + ofHosts.length + ofRoutes.length === 0) return resources;
  const patcher = patchHost(ofHosts, ofRoutes, patches);
  const memo = memos.pairs<GeneratedResource, Patches, GeneratedResource | undefined>('patched virtual hosts');
  const kept = replacesHosts(ofConfiguration) ? [] : resources;
  const changed = kept.flatMap((resource) => {
    return memo.get(resource, patches, () => patchedHost(resource, routes, patcher)) ?? [];
  });
  const added = [
    ...mergedHosts(ofConfiguration).flatMap((host) => patcher(host) ?? []),
    ...ofHosts.filter(({ operation }) => operation === 'ADD').map(({ value }) => VirtualHost.decode(value)),
  ].map((host) => hostResource(host, routes));
  const all = [...changed, ...added];
  checkUnique(all, resources, routes, [...ofHosts, ...ofConfiguration], memos);
  return all.length > 0 ? all : [hostResource(NO_HOST, routes)];
}

/** In place of virtual hosts that patches remove: Envoy waits for one. It returns HTTP 404, as without any. */
const NO_HOST: VirtualHost = { name: 'none', domains: ['*'] };

/** Undefined: removed. */
function patchedHost(
  resource: GeneratedResource,
  routes: Unit,
  patcher: (host: VirtualHost) => VirtualHost | undefined,
): GeneratedResource | undefined {
  const decoded: VirtualHost = VirtualHost.decode(resource.bytes);
  // Patches name virtual hosts without their route configuration.
  const host = { ...decoded, name: resource.name.slice(routes.length + 1) };
  const patched = patcher(host);
  if (patched === host) return resource;
  return patched && hostResource(patched, routes);
}

function hostResource(host: VirtualHost, routes: Unit): GeneratedResource {
  const name = `${routes}/${host.name ?? ''}`;
  return { name, bytes: encode(VirtualHost, { ...host, name }), refs: [] };
}

/** Whether a merged route configuration has other virtual hosts in place of those that were generated. */
function replacesHosts(ofConfiguration: readonly Patch[]): boolean {
  return ofConfiguration.some((patch) => replacesList(patch) && hostsOf(patch).length > 0);
}

/** The virtual hosts of merged route configurations. */
function mergedHosts(ofConfiguration: readonly Patch[]): readonly VirtualHost[] {
  const replacing = ofConfiguration.findLastIndex((patch) => replacesList(patch) && hostsOf(patch).length > 0);
  return ofConfiguration.slice(Math.max(replacing, 0)).flatMap(hostsOf);
}

function replacesList({ operation }: Patch): boolean {
  return operation === 'MERGE_AND_REPLACE_LIST';
}

function hostsOf(patch: Patch): readonly VirtualHost[] {
  return isMerge(patch) ? (RouteConfiguration.decode(patch.value).virtualHosts ?? []) : [];
}

/**
 * Envoy refuses a domain that is there twice, and takes virtual hosts of one name for the same. Before the patches
 * there are no such virtual hosts.
 */
function checkUnique(
  hosts: readonly GeneratedResource[],
  before: readonly GeneratedResource[],
  routes: Unit,
  patches: readonly Patch[],
  memos: Memos,
): void {
  const known = new Set(before);
  if (hosts.every((host) => known.has(host))) return;
  const names = new Set<string>();
  for (const { name } of hosts) {
    const own = name.slice(routes.length + 1);
    if (own.includes('/')) {
      throw misfit(
        labelsOf(patches),
        `the virtual host ${own} would have a name with "/", which Envoy cannot discover`,
      );
    }
    if (names.has(name))
      throw misfit(labelsOf(patches), `the route configuration ${routes} would have two virtual hosts named ${own}`);
    names.add(name);
  }
  const memo = memos.weak<GeneratedResource, readonly string[]>('domains of virtual hosts');
  const domains = hosts.map((host) => memo.get(host, () => VirtualHost.decode(host.bytes).domains));
  const repeated = repeatedDomain(domains);
  if (repeated !== undefined) {
    throw misfit(labelsOf(patches), `the route configuration ${routes} would have the domain ${repeated} twice`);
  }
}
