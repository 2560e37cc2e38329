/** Which service ports are served at an address: how a proxy finds what it stands for. */
import type { PMap } from '../core/pmap.ts';
import { deepEqual } from './equal.ts';
import { compareText } from './order.ts';
import type { ServiceChange } from './services.ts';
import type { State } from './state.ts';
import type { BoundInstance, Endpoint, Service, ServiceKey } from './types.ts';

/** Looks like an IP address; host names and socket paths belong to no proxy. */
const NUMERIC = /^[\d.]+$|:/;

const NONE: readonly BoundInstance[] = [];

/** What becomes of an address: the services whose endpoints there are made afresh, and those endpoints. */
interface Touched {
  readonly services: ServiceKey[];
  readonly instances: BoundInstance[];
}

/** The index by address after some services or their endpoints changed, and the addresses that differ. */
export function updateInstances(
  before: State,
  after: State,
  services: ReadonlyMap<ServiceKey, ServiceChange>,
  endpoints: ReadonlySet<ServiceKey>,
): { instances: PMap<readonly BoundInstance[]>; addresses: ReadonlySet<string> } {
  const touched = new Map<string, Touched>();
  const touch = (address: string): Touched => {
    let place = touched.get(address);
    if (place === undefined) {
      place = { services: [], instances: [] };
      touched.set(address, place);
    }
    return place;
  };
  for (const key of new Set([...services.keys(), ...endpoints])) {
    const was = before.endpoints.get(key) ?? [];
    const is = after.endpoints.get(key) ?? [];
    const service = after.services.get(key);
    const redefined = !deepEqual(before.services.get(key)?.ports, service?.ports);
    const addresses = differingAddresses(was, is, redefined);
    for (const address of addresses) touch(address).services.push(key);
    if (service === undefined) continue;
    for (const endpoint of is) {
      const instance = addresses.has(endpoint.address) ? bind(service, endpoint) : undefined;
      if (instance !== undefined) touch(endpoint.address).instances.push(instance);
    }
  }
  const changes = new Map<string, readonly BoundInstance[] | undefined>();
  for (const [address, { services: keys, instances }] of touched) {
    const had = before.instances.get(address) ?? NONE;
    const has = had.length === 0 ? instances : [...withoutServices(had, new Set(keys)), ...instances];
    if (has.length > 1) has.sort(compareInstances);
    if (!deepEqual(had, has)) changes.set(address, has.length === 0 ? undefined : has);
  }
  return { instances: before.instances.with(changes), addresses: new Set(changes.keys()) };
}

function withoutServices(instances: readonly BoundInstance[], keys: ReadonlySet<ServiceKey>): BoundInstance[] {
  return instances.filter(({ service }) => !keys.has(service));
}

function bind(service: Service, endpoint: Endpoint): BoundInstance | undefined {
  const port = service.ports.find(({ name, protocol }) => name === endpoint.servicePort && protocol !== 'UDP');
  return port === undefined ? undefined : { service: service.key, hostname: service.hostname, port, endpoint };
}

/** Addresses at which the two lists differ; all of both when the ports were redefined. Equal endpoints are identical here. */
function differingAddresses(was: readonly Endpoint[], is: readonly Endpoint[], redefined: boolean): Set<string> {
  const addresses = new Set<string>();
  const before = new Set(was);
  const after = new Set(is);
  for (const endpoint of was) if (redefined || !after.has(endpoint)) addresses.add(endpoint.address);
  for (const endpoint of is) if (redefined || !before.has(endpoint)) addresses.add(endpoint.address);
  for (const address of addresses) if (!NUMERIC.test(address)) addresses.delete(address);
  return addresses;
}

function compareInstances(a: BoundInstance, b: BoundInstance): number {
  return compareText(a.service, b.service) || a.port.port - b.port.port || a.endpoint.port - b.endpoint.port;
}
