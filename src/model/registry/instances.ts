/**
 * Indexes which service ports are served at an address of a network, which determines the inbound configuration of a
 * proxy.
 */
import type { PMap } from '../../core/pmap.ts';
import { deepEqual } from '../common/equal.ts';
import { compareText } from '../common/order.ts';
import type { BoundInstance, ChangeSet, Endpoint, Service, ServiceKey } from '../types/types.ts';
import { networkAddress } from '../workloads/network-names.ts';
import type { EndpointDelta } from './service-record.ts';
import type { State } from './state.ts';

/** Matches IP addresses, and not host names or socket paths, which proxies do not have. */
const NUMERIC = /^[\d.]+$|:/;

const NONE: readonly BoundInstance[] = [];

/** Service → its endpoints that are removed from an address; undefined: all of them. */
type Gone = Map<ServiceKey, ReadonlySet<Endpoint> | undefined>;

/** The changes at addresses (see `networkAddress`). */
interface AddressChanges {
  readonly removed: Map<string, Gone>;
  readonly added: Map<string, BoundInstance[]>;
}

/** The index by address after some services or their endpoints changed, and the addresses that differ. */
export function updateInstances(
  before: State,
  after: State,
  services: ChangeSet['services'],
  endpoints: ReadonlyMap<ServiceKey, EndpointDelta>,
): { instances: PMap<readonly BoundInstance[]>; addresses: ReadonlySet<string> } {
  const { removed, added } = changesByAddress(before, after, services, endpoints);
  const changes = new Map<string, readonly BoundInstance[] | undefined>();
  const addresses = new Set<string>();
  const change = (address: string, more: readonly BoundInstance[]): void => {
    const previous = before.instances.get(address) ?? NONE;
    const gone = removed.get(address);
    const kept = gone === undefined ? previous : previous.filter((instance) => !isGone(instance, gone));
    const next = kept.length === 0 ? more : [...kept, ...more];
    const sorted = next.length > 1 ? next.toSorted(compareInstances) : next;
    if (deepEqual(previous, sorted)) return;
    changes.set(address, sorted.length === 0 ? undefined : sorted);
    // Instances in other clusters than the first one serve nobody.
    if (!deepEqual(ofFirstClusters(previous), ofFirstClusters(sorted))) addresses.add(address);
  };
  for (const address of removed.keys()) if (!added.has(address)) change(address, NONE);
  for (const [address, instances] of added) change(address, instances);
  return { instances: before.instances.with(changes), addresses };
}

function changesByAddress(
  before: State,
  after: State,
  services: ChangeSet['services'],
  endpoints: ReadonlyMap<ServiceKey, EndpointDelta>,
): AddressChanges {
  const changes: AddressChanges = { removed: new Map(), added: new Map() };
  for (const key of new Set([...services.keys(), ...endpoints.keys()])) {
    const service = after.services.get(key);
    // A change of the ports affects every endpoint of the service.
    const redefined = !deepEqual(before.services.get(key)?.ports, service?.ports);
    const delta = endpoints.get(key) ?? NO_DELTA;
    if (redefined) remove(changes.removed, key, before.endpoints.get(key) ?? [], undefined);
    else remove(changes.removed, key, delta.removed, delta.removed);
    if (service !== undefined) add(changes.added, service, redefined ? (after.endpoints.get(key) ?? []) : delta.added);
  }
  return changes;
}

function remove(
  removed: AddressChanges['removed'],
  key: ServiceKey,
  endpoints: Iterable<Endpoint>,
  gone: ReadonlySet<Endpoint> | undefined,
): void {
  for (const { address, network } of endpoints) {
    if (!NUMERIC.test(address)) continue;
    const location = networkAddress(network, address);
    const byService = removed.get(location);
    if (byService === undefined) removed.set(location, new Map([[key, gone]]));
    else byService.set(key, gone);
  }
}

function add(added: AddressChanges['added'], service: Service, endpoints: Iterable<Endpoint>): void {
  for (const endpoint of endpoints) {
    const instance = NUMERIC.test(endpoint.address) ? bind(service, endpoint) : undefined;
    if (instance === undefined) continue;
    const location = networkAddress(endpoint.network, endpoint.address);
    const instances = added.get(location);
    if (instances === undefined) added.set(location, [instance]);
    else instances.push(instance);
  }
}

const NO_DELTA: EndpointDelta = { removed: new Set(), added: [] };

function isGone({ service, endpoint }: BoundInstance, gone: Gone): boolean {
  return gone.has(service) && gone.get(service)?.has(endpoint) !== false;
}

function bind(service: Service, endpoint: Endpoint): BoundInstance | undefined {
  const port = service.ports.find(({ name, protocol }) => name === endpoint.servicePort && protocol !== 'UDP');
  return port === undefined ? undefined : { service: service.key, hostname: service.hostname, port, endpoint };
}

function compareInstances(a: BoundInstance, b: BoundInstance): number {
  return (
    compareText(a.service, b.service) ||
    a.port.port - b.port.port ||
    a.endpoint.port - b.endpoint.port ||
    compareText(a.endpoint.cluster ?? '', b.endpoint.cluster ?? '')
  );
}

/**
 * The instances at an address of a network. If several clusters of a network use the address, the first one is used.
 */
export function instancesAt(
  { instances }: Pick<State, 'instances'>,
  network: string,
  address: string,
): readonly BoundInstance[] {
  return ofFirstClusters(instances.get(networkAddress(network, address)) ?? NONE);
}

function ofFirstClusters(all: readonly BoundInstance[]): readonly BoundInstance[] {
  if (all.every(({ endpoint }) => endpoint.cluster === undefined)) return all;
  return all.filter(({ service, port, endpoint }, index) => {
    const before = all[index - 1];
    return before?.service !== service || before.port.port !== port.port || before.endpoint.port !== endpoint.port;
  });
}
