/**
 * Which endpoints of a service the proxies of a cluster may use. For a cluster-local service, proxies use only the
 * endpoints in their own cluster. Cluster-local services are those in `kube-system`, the API server, the control plane,
 * and the services that `serviceSettings` of the mesh configuration declare as such; `serviceSettings` can also exempt
 * services. Documents of namespaces cannot change this.
 */
import type { Memos } from '../../core/memo.ts';
import { canonicalHost, type Endpoint, type MeshSnapshot, matchingPatterns, type Service } from '../../model/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { OTHER_CLUSTER } from '../views.ts';

type Sources = Pick<MeshSnapshot, 'mesh' | 'settings' | 'memos'>;

/** Host name, or a pattern with a wildcard → whether its services are cluster-local. */
type Patterns = ReadonlyMap<string, boolean>;

/** The most specific pattern decides; among equally specific ones, the last one. */
export function isClusterLocal({ mesh, settings, memos }: Sources, host: string): boolean {
  const patterns = memos
    .weak<MeshConfig, Patterns>('cluster-local hosts')
    .get(mesh, () => patternsOf(mesh, settings.domain, settings.rootNamespace));
  for (const pattern of matchingPatterns(host)) {
    const local = patterns.get(pattern);
    if (local !== undefined) return local;
  }
  return false;
}

function patternsOf({ serviceSettings, defaultConfig }: MeshConfig, domain: string, rootNamespace: string): Patterns {
  const control = defaultConfig.discoveryAddress?.replace(/:\d+$/, '') ?? `meshd.${rootNamespace}.svc`;
  const host = canonicalHost(control);
  const patterns = new Map([
    [`*.kube-system.svc.${domain}`, true],
    [`kubernetes.default.svc.${domain}`, true],
    [host.endsWith('.svc') ? `${host}.${domain}` : host, true],
  ]);
  for (const { settings, hosts = [] } of serviceSettings)
    for (const each of hosts) patterns.set(canonicalHost(each), settings?.clusterLocal === true);
  return patterns;
}

/** Whether the endpoints of a service differ between the proxies of several clusters. */
export function readsCluster(sources: Sources, host: string, endpoints: readonly Endpoint[]): boolean {
  if (!sources.settings.servesOtherClusters && !splitOf(sources.memos, endpoints).hasOthers) return false;
  return isClusterLocal(sources, host);
}

const NONE: readonly Endpoint[] = [];

interface Split {
  /** Whether some endpoints are in other clusters. */
  readonly hasOthers: boolean;
  /** All endpoints, without duplicate addresses and ports: clusters may share addresses. */
  readonly all: readonly Endpoint[];
  /** '' is the program's own cluster. */
  readonly byCluster: ReadonlyMap<string, readonly Endpoint[]>;
}

/**
 * The endpoints of a service for the proxies of a cluster. Clusters with the same endpoints share one list object.
 * @param cluster as in `Placement`
 */
export function endpointsInCluster(
  sources: Sources,
  { hostname }: Pick<Service, 'hostname'>,
  endpoints: readonly Endpoint[],
  cluster: string,
): readonly Endpoint[] {
  const split = splitOf(sources.memos, endpoints);
  if (!readsCluster(sources, hostname, endpoints)) return split.all;
  return cluster === OTHER_CLUSTER ? NONE : (split.byCluster.get(cluster) ?? NONE);
}

function splitOf(memos: Memos, endpoints: readonly Endpoint[]): Split {
  return memos.weak<readonly Endpoint[], Split>('endpoints by cluster').get(endpoints, () => split(endpoints));
}

function split(endpoints: readonly Endpoint[]): Split {
  if (endpoints.every(({ cluster }) => cluster === undefined))
    return { hasOthers: false, all: endpoints, byCluster: new Map([['', endpoints]]) };
  // Sorted by address, the local cluster first.
  const places = new Set<string>();
  const all = endpoints.filter((endpoint) => {
    const { address, port, servicePort, network } = endpoint;
    const before = places.size;
    return places.add(`${servicePort}\n${address}\n${port}\n${network}`).size > before;
  });
  return {
    hasOthers: true,
    all: all.length === endpoints.length ? endpoints : all,
    byCluster: Map.groupBy(endpoints, ({ cluster }) => cluster ?? ''),
  };
}
