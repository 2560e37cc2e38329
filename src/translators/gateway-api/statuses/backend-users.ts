/** The policies and the routes of Gateways that refer to each Service. */
import type { ResourceKey } from '../../../resources/index.ts';
import { type Policy, type ServiceName, targetsOf } from '../backends/backend-tls.ts';
import type { TranslatedRoute } from '../routes/routes.ts';

interface BackendUse {
  /** The Gateways that it is attached to, `namespace/name`. */
  readonly gateways: readonly string[];
  readonly grpcPorts: readonly number[];
}

export class BackendUsers {
  readonly #policies = new Map<ServiceName, Map<ResourceKey, Policy>>();
  readonly #targets = new Map<ResourceKey, readonly ServiceName[]>();
  readonly #uses = new Map<ServiceName, Map<ResourceKey, BackendUse>>();
  readonly #ofRoute = new Map<ResourceKey, ReadonlyMap<ServiceName, BackendUse>>();

  /** @returns the Services that the policy targeted before or targets now */
  setPolicy(key: ResourceKey, policy: Policy | undefined): readonly ServiceName[] {
    const before = this.#targets.get(key) ?? [];
    const after = policy === undefined ? [] : targetsOf(policy);
    for (const service of before) remove(this.#policies, service, key);
    for (const service of after) if (policy !== undefined) add(this.#policies, service, key, policy);
    if (after.length === 0) this.#targets.delete(key);
    else this.#targets.set(key, after);
    return [...before, ...after];
  }

  /** @returns the Services that are used differently now */
  setRoute(key: ResourceKey, route: TranslatedRoute | undefined): readonly ServiceName[] {
    const before = this.#ofRoute.get(key) ?? new Map<ServiceName, BackendUse>();
    const after = usesOf(route);
    const services = [...new Set([...before.keys(), ...after.keys()])];
    const changed = services.filter((each) => JSON.stringify(before.get(each)) !== JSON.stringify(after.get(each)));
    for (const service of changed) {
      const use = after.get(service);
      if (use === undefined) remove(this.#uses, service, key);
      else add(this.#uses, service, key, use);
    }
    if (after.size === 0) this.#ofRoute.delete(key);
    else this.#ofRoute.set(key, after);
    return changed;
  }

  policiesOf(service: ServiceName): readonly Policy[] {
    return [...(this.#policies.get(service)?.values() ?? [])];
  }

  policyKeysOf(service: ServiceName): Iterable<ResourceKey> {
    return this.#policies.get(service)?.keys() ?? [];
  }

  /** The Gateways with a route to a Service, `namespace/name`, in order. */
  gatewaysOf(service: ServiceName): readonly string[] {
    const all = [...(this.#uses.get(service)?.values() ?? [])].flatMap(({ gateways }) => gateways);
    return [...new Set(all)].sort();
  }

  grpcPortsOf(service: ServiceName): ReadonlySet<number> {
    return new Set([...(this.#uses.get(service)?.values() ?? [])].flatMap(({ grpcPorts }) => grpcPorts));
  }
}

function usesOf(route: TranslatedRoute | undefined): ReadonlyMap<ServiceName, BackendUse> {
  if (route === undefined || route.attachments.length === 0) return new Map();
  const gateways = [...new Set(route.attachments.map(({ gateway }) => `${gateway.namespace}/${gateway.name}`))].sort();
  const isGrpc = route.key.startsWith('GRPCRoute/');
  const uses = new Map<ServiceName, { gateways: readonly string[]; grpcPorts: number[] }>();
  for (const { namespace, service, port } of route.compiled.backends) {
    const name = `${namespace}/${service}`;
    const use = uses.get(name) ?? { gateways, grpcPorts: [] };
    if (isGrpc && !use.grpcPorts.includes(port)) use.grpcPorts.push(port);
    uses.set(name, use);
  }
  return uses;
}

function add<T>(map: Map<ServiceName, Map<ResourceKey, T>>, service: ServiceName, key: ResourceKey, value: T): void {
  const known = map.get(service);
  if (known === undefined) map.set(service, new Map([[key, value]]));
  else known.set(key, value);
}

function remove<T>(map: Map<ServiceName, Map<ResourceKey, T>>, service: ServiceName, key: ResourceKey): void {
  const known = map.get(service);
  known?.delete(key);
  if (known?.size === 0) map.delete(service);
}
