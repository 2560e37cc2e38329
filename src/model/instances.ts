/** Which service ports are served at an address of a network: how a proxy finds what it stands for. */
import type { PMap } from '../core/pmap.ts';
import { deepEqual } from './equal.ts';
import { networkAddress } from './network-names.ts';
import { compareText } from './order.ts';
import type { EndpointDelta } from './service-record.ts';
import type { State } from './state.ts';
import type { BoundInstance, ChangeSet, Endpoint, Service, ServiceKey } from './types.ts';

/** Looks like an IP address; host names and socket paths belong to no proxy. */
const NUMERIC = /^[\d.]+$|:/;

const NONE: readonly BoundInstance[] = [];

/** What becomes of an address: the instances that go, by service, and those that come. */
interface Touched {
  /** Service → its endpoints that go; undefined: all of them. */
  gone: Map<ServiceKey, ReadonlySet<Endpoint> | undefined> | undefined;
  readonly added: BoundInstance[];
}

/** The index by address after some services or their endpoints changed, and the addresses that differ. */
export function updateInstances(
  before: State,
  after: State,
  services: ChangeSet['services'],
  endpoints: ReadonlyMap<ServiceKey, EndpointDelta>,
): { instances: PMap<readonly BoundInstance[]>; addresses: ReadonlySet<string> } {
  const touched = new Map<string, Touched>();
  const touch = (address: string): Touched => {
    let place = touched.get(address);
    if (place === undefined) {
      place = { gone: undefined, added: [] };
      touched.set(address, place);
    }
    return place;
  };
  for (const key of new Set([...services.keys(), ...endpoints.keys()])) {
    const service = after.services.get(key);
    const redefined = !deepEqual(before.services.get(key)?.ports, service?.ports);
    const delta = endpoints.get(key) ?? NO_DELTA;
    const gone = redefined ? undefined : delta.removed;
    const was = redefined ? (before.endpoints.get(key) ?? []) : delta.removed;
    const is = redefined ? (after.endpoints.get(key) ?? []) : delta.added;
    for (const { address, network } of was) {
      if (!NUMERIC.test(address)) continue;
      const place = touch(networkAddress(network, address));
      place.gone ??= new Map();
      place.gone.set(key, gone);
    }
    if (service === undefined) continue;
    for (const endpoint of is) {
      const instance = NUMERIC.test(endpoint.address) ? bind(service, endpoint) : undefined;
      if (instance !== undefined) touch(networkAddress(endpoint.network, endpoint.address)).added.push(instance);
    }
  }
  const changes = new Map<string, readonly BoundInstance[] | undefined>();
  for (const [address, { gone, added }] of touched) {
    const had = before.instances.get(address) ?? NONE;
    const kept = gone === undefined ? had : had.filter((instance) => !isGone(instance, gone));
    const has = kept.length === 0 ? added : [...kept, ...added];
    if (has.length > 1) has.sort(compareInstances);
    if (!deepEqual(had, has)) changes.set(address, has.length === 0 ? undefined : has);
  }
  return { instances: before.instances.with(changes), addresses: new Set(changes.keys()) };
}

const NO_DELTA: EndpointDelta = { removed: new Set(), added: [] };

function isGone({ service, endpoint }: BoundInstance, gone: NonNullable<Touched['gone']>): boolean {
  return gone.has(service) && gone.get(service)?.has(endpoint) !== false;
}

function bind(service: Service, endpoint: Endpoint): BoundInstance | undefined {
  const port = service.ports.find(({ name, protocol }) => name === endpoint.servicePort && protocol !== 'UDP');
  return port === undefined ? undefined : { service: service.key, hostname: service.hostname, port, endpoint };
}

function compareInstances(a: BoundInstance, b: BoundInstance): number {
  return compareText(a.service, b.service) || a.port.port - b.port.port || a.endpoint.port - b.endpoint.port;
}
