/** The attached routes by listener and hostname. */
import type { ResourceKey } from '../../../resources/index.ts';
import type { GatewayPlan } from '../listeners/listeners.ts';
import { HostRoutes } from './host-routes.ts';
import type { TranslatedRoute } from './routes.ts';

export interface HostAddress {
  /** `namespace/name` */
  readonly gateway: string;
  readonly listener: string;
  readonly hostname: string;
}

interface ListenerRoutes {
  readonly byHost: Map<string, HostRoutes>;
  readonly routes: Set<ResourceKey>;
}

export class AttachedRoutes {
  readonly #routes = new Map<ResourceKey, TranslatedRoute>();
  /** `namespace/name` of a Gateway → those of its listeners that have routes. */
  readonly #gateways = new Map<string, Map<string, ListenerRoutes>>();
  readonly #changedHosts = new Map<string, HostAddress>();
  readonly #changedGateways = new Set<string>();

  /** Marks the hostnames at which the route is added, removed or changed. */
  replace(key: ResourceKey, route: TranslatedRoute | undefined): void {
    const before = this.#routes.get(key);
    const [hostsBefore, hostsAfter] = [hostsOf(before), hostsOf(route)];
    for (const [address, host] of hostsBefore) if (!hostsAfter.has(address)) this.#remove(key, host);
    for (const [address, host] of hostsAfter) {
      if (route === undefined) continue;
      this.#add(route, host);
      if (!hostsBefore.has(address) || before?.compiled !== route.compiled) this.#mark(host);
    }
    if (route === undefined) this.#routes.delete(key);
    else this.#routes.set(key, route);
  }

  gatewayChanged(gateway: string, before: GatewayPlan | undefined, after: GatewayPlan | undefined): void {
    for (const { name, hostname } of [...(before?.listeners ?? []), ...(after?.listeners ?? [])]) {
      this.#mark({ gateway, listener: name, hostname });
    }
    for (const [listener, { byHost }] of this.#gateways.get(gateway) ?? []) {
      for (const hostname of byHost.keys()) this.#mark({ gateway, listener, hostname });
    }
    this.#changedGateways.add(gateway);
  }

  /** The routes of a hostname; undefined when it has none. */
  routesOf({ gateway, listener, hostname }: HostAddress): HostRoutes | undefined {
    return this.#gateways.get(gateway)?.get(listener)?.byHost.get(hostname);
  }

  /** Number of routes that are attached to a listener. */
  count(gateway: string, listener: string): number {
    return this.#gateways.get(gateway)?.get(listener)?.routes.size ?? 0;
  }

  /** The hostnames whose routes changed since the last call. */
  takeChangedHosts(): readonly HostAddress[] {
    const changed = [...this.#changedHosts.values()];
    this.#changedHosts.clear();
    return changed;
  }

  /** The Gateways with changes since the last call, as `namespace/name`. */
  takeChangedGateways(): readonly string[] {
    const changed = [...this.#changedGateways];
    this.#changedGateways.clear();
    return changed;
  }

  #mark(host: HostAddress): void {
    this.#changedHosts.set(addressOf(host), host);
    this.#changedGateways.add(host.gateway);
  }

  #add(route: TranslatedRoute, host: HostAddress): void {
    const listeners = this.#gateways.get(host.gateway) ?? new Map<string, ListenerRoutes>();
    this.#gateways.set(host.gateway, listeners);
    const listener = listeners.get(host.listener) ?? { byHost: new Map(), routes: new Set() };
    listeners.set(host.listener, listener);
    const routes = listener.byHost.get(host.hostname) ?? new HostRoutes();
    listener.byHost.set(host.hostname, routes);
    routes.set(route);
    listener.routes.add(route.key);
  }

  /** Removes a route from a hostname; other routes are added afterwards. */
  #remove(key: ResourceKey, host: HostAddress): void {
    const listeners = this.#gateways.get(host.gateway);
    const listener = listeners?.get(host.listener);
    const routes = listener?.byHost.get(host.hostname);
    routes?.delete(key);
    if (routes?.size === 0) listener?.byHost.delete(host.hostname);
    listener?.routes.delete(key);
    if (listener?.routes.size === 0) listeners?.delete(host.listener);
    if (listeners?.size === 0) this.#gateways.delete(host.gateway);
    this.#mark(host);
  }
}

function addressOf({ gateway, listener, hostname }: HostAddress): string {
  return `${gateway}/${listener}/${hostname}`;
}

function hostsOf(route: TranslatedRoute | undefined): ReadonlyMap<string, HostAddress> {
  const hosts = new Map<string, HostAddress>();
  for (const { gateway, listener, hostnames } of route?.attachments ?? []) {
    for (const hostname of hostnames) {
      const host = { gateway: `${gateway.namespace}/${gateway.name}`, listener: listener.name, hostname };
      hosts.set(addressOf(host), host);
    }
  }
  return hosts;
}
