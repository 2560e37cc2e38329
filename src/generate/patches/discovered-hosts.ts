/**
 * Patches of virtual hosts that are separate resources (VHDS). Virtual hosts that do not match keep their bytes.
 * Results are cached by virtual host, because a large route configuration has thousands of them and an edit of the mesh
 * changes few.
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
 * The virtual hosts of a route configuration after the patches; unchanged ones are the same objects.
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
  // The route configuration does not exist, or contains its virtual hosts.
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

/**
 * Replaces virtual hosts that patches remove, because Envoy waits for one. It returns HTTP 404, as without a virtual
 * host.
 */
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

/** Whether patches replace the generated virtual hosts of a route configuration. */
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
 * Throws CtlError for repeated domains, which Envoy refuses, and for repeated names of virtual hosts, which Envoy
 * treats as the same. Generated virtual hosts have neither.
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
