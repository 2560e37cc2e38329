/** The names that are visible to a view's proxies, with the addresses that they use. */
import type { Memos } from '../../core/memo.ts';
import type { Endpoint, Service } from '../../model/index.ts';
import type { MeshConfig, MeshNetworks } from '../../resources/index.ts';
import { endpointsInCluster, networkClass } from '../endpoints/index.ts';
import { type MeshReader, type Services, unrecorded } from '../reads/index.ts';
import type { Placement } from '../views.ts';
import { type HeadlessNames, headlessNames, type Name, serviceName } from './service-names.ts';

interface KnownNames {
  readonly names: readonly Name[];
  /** The inputs in addition to the services and the place. */
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  readonly headless: readonly { readonly service: Service; readonly endpoints: readonly Endpoint[] | undefined }[];
}

/**
 * The names of services, in the order of their hosts. The same list for the same services and endpoints, so that
 * namespaces with the same services share the results.
 * @param place the classes of the proxies' network and cluster
 */
export function namesOf(
  snapshot: MeshReader,
  services: Services,
  { network, cluster }: Pick<Placement, 'network' | 'cluster'>,
): readonly Name[] {
  const { memos, mesh, networks } = snapshot;
  const named = services.named();
  const lists = memos.weak<Services, Map<string, KnownNames>>('names of scopes').get(services, () => new Map());
  const endpointsOf = ({ key }: Service) => snapshot.carriedEndpoints.get(key);
  const place = JSON.stringify([network, cluster]);
  const known = lists.get(place);
  const isCurrent = known?.headless.every(({ service, endpoints }) => endpointsOf(service) === endpoints) === true;
  if (known?.networks === networks && known.mesh === mesh && isCurrent) return known.names;
  const headless: KnownNames['headless'][number][] = [];
  const names: Name[] = [];
  for (const [, service] of named) {
    // Clients would have to query every name.
    if (service.hostname === '*') continue;
    if (!service.headless) {
      const name = serviceName(memos, service);
      if (name !== undefined) names.push(name);
      continue;
    }
    const endpoints = endpointsOf(service);
    headless.push({ service, endpoints });
    if (endpoints === undefined) continue;
    const ofCluster = endpointsInCluster(snapshot, service, endpoints, cluster);
    const { own, pods } = namesIn(memos, service, ofCluster, networks, network);
    if (own !== undefined) names.push(own);
    // A service of the same name takes precedence.
    for (const pod of pods) if (unrecorded(() => services.get(pod.host)) === undefined) names.push(pod);
  }
  lists.set(place, { names, mesh, networks, headless });
  return names;
}

/** By network; replaced when the networks change. */
interface NamesByNetwork {
  networks: MeshNetworks;
  byNetwork: Map<string, HeadlessNames>;
}

/**
 * The names of a headless service for the proxies of a network, with the endpoints that these reach directly. A gateway
 * of another network cannot know which endpoint a connection is for.
 */
function namesIn(
  memos: Memos,
  service: Service,
  endpoints: readonly Endpoint[],
  networks: MeshNetworks,
  network: string,
): HeadlessNames {
  const known = memos
    .pairs<Service, readonly Endpoint[], NamesByNetwork>('names of headless services')
    .get(service, endpoints, () => ({ networks, byNetwork: new Map() }));
  if (known.networks !== networks) {
    known.networks = networks;
    known.byNetwork = new Map();
  }
  let names = known.byNetwork.get(network);
  if (names === undefined) {
    const isReachable = (endpoint: Endpoint): boolean => {
      const own = networkClass(memos, networks, endpoint.network);
      return own === '' || own === network;
    };
    names = headlessNames(service, endpoints.filter(isReachable));
    known.byNetwork.set(network, names);
  }
  return names;
}
