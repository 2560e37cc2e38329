/**
 * The name table of a view: the hosts that its proxies see, with their addresses, in one resource. Agents of Istio (1.8
 * and later) subscribe to it, and with DNS capture they are not ready before they have one. So a view without names has
 * an empty table.
 */
import type { Memos } from '../../core/memo.ts';
import type { Endpoint, Service } from '../../model/index.ts';
import type { MeshNetworks } from '../../resources/index.ts';
import { addressedScope, joinedResource } from '../common/index.ts';
import { networkClass } from '../endpoints/index.ts';
import { type MeshReader, type ScopeReader, type Services, unrecorded } from '../reads/index.ts';
import type { GatewayView, GeneratedResource, OutboundView, Unit, UnitOutput } from '../types.ts';
import { type HeadlessNames, headlessNames, serviceName } from './service-names.ts';

/** Name of the unit and of its resource: a proxy has one table. */
const NAME_TABLE = 'names';

const NOTHING: UnitOutput = { resources: [], findings: [] };

type NamedView = OutboundView | GatewayView;

export function nameTableUnits(snapshot: MeshReader, view: NamedView): readonly Unit[] {
  return namedScope(snapshot, view) === undefined ? [] : [NAME_TABLE];
}

export function nameTable(snapshot: MeshReader, view: NamedView, unit: Unit): UnitOutput {
  const scope = unit === NAME_TABLE ? namedScope(snapshot, view) : undefined;
  if (scope === undefined) return NOTHING;
  return { resources: [tableOf(snapshot, scope.services, networkOf(view))], findings: [] };
}

function namedScope(snapshot: MeshReader, view: NamedView): ScopeReader | undefined {
  return view.part === 'gateway' ? snapshot.gatewayScope(view.namespace) : addressedScope(snapshot, view);
}

/** Gateways capture no DNS: names of headless services in networks with gateways are of no use to them. */
function networkOf(view: NamedView): string {
  return view.part === 'gateway' ? '' : (view.dns?.network ?? '');
}

interface Table {
  readonly resource: GeneratedResource;
  /** The inputs besides the services and the network. */
  readonly networks: MeshNetworks;
  readonly headless: readonly { readonly service: Service; readonly endpoints: readonly Endpoint[] | undefined }[];
}

/**
 * The same object for the same services and endpoints: all namespaces that see the same services share its bytes.
 * @param network the class of the proxies' network
 */
function tableOf(snapshot: MeshReader, services: Services, network: string): GeneratedResource {
  const { memos, networks } = snapshot;
  const named = services.named();
  const tables = memos.weak<Services, Map<string, Table>>('name tables').get(services, () => new Map());
  const endpointsOf = ({ key }: Service) => snapshot.carriedEndpoints.get(key);
  const known = tables.get(network);
  if (
    known?.networks === networks &&
    known.headless.every(({ service, endpoints }) => endpointsOf(service) === endpoints)
  )
    return known.resource;
  const headless: Table['headless'][number][] = [];
  const pieces: Uint8Array[] = [];
  for (const [, service] of named) {
    if (!service.headless) {
      const name = serviceName(memos, service);
      if (name !== undefined) pieces.push(name);
      continue;
    }
    const endpoints = endpointsOf(service);
    headless.push({ service, endpoints });
    if (endpoints === undefined) continue;
    const { own, pods } = namesIn(memos, service, endpoints, networks, network);
    if (own !== undefined) pieces.push(own);
    // A service of the same name takes precedence.
    for (const { host, bytes } of pods) if (unrecorded(() => services.get(host)) === undefined) pieces.push(bytes);
  }
  const resource = joinedResource(NAME_TABLE, pieces, []);
  tables.set(network, { resource, networks, headless });
  return resource;
}

/** By network; replaced when the networks change. */
interface NamesByNetwork {
  networks: MeshNetworks;
  byNetwork: Map<string, HeadlessNames>;
}

/**
 * The names of a headless service for the proxies of a network: with the endpoints that these reach directly. A gateway
 * of another network does not know which endpoint a connection is for.
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
