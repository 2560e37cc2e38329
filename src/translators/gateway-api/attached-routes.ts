/** Which routes are attached where: by listener and hostname. */
import type { ResourceKey } from '../../resources/index.ts';
import type { GatewayPlan } from './listeners.ts';
import type { TranslatedRoute } from './routes.ts';

/** A hostname of a listener. */
export interface HostAddress {
  /** `namespace/name` */
  readonly gateway: string;
  readonly listener: string;
  readonly hostname: string;
}

interface ListenerRoutes {
  readonly byHost: Map<string, Map<ResourceKey, TranslatedRoute>>;
  readonly routes: Set<ResourceKey>;
}

export class AttachedRoutes {
  readonly #routes = new Map<ResourceKey, TranslatedRoute>();
  /** `namespace/name` of a Gateway → its listeners with routes. */
  readonly #gateways = new Map<string, Map<string, ListenerRoutes>>();
  readonly #changedHosts = new Map<string, HostAddress>();
  readonly #changedGateways = new Set<string>();

  replace(key: ResourceKey, route: TranslatedRoute | undefined): void {
    const before = this.#routes.get(key);
    for (const host of hostsOf(before)) this.#remove(key, host);
    for (const host of hostsOf(route)) if (route !== undefined) this.#add(key, route, host);
    if (route === undefined) this.#routes.delete(key);
    else this.#routes.set(key, route);
  }

  /** Marks all hostnames of a Gateway whose plan changed. */
  gatewayChanged(gateway: string, before: GatewayPlan | undefined, after: GatewayPlan | undefined): void {
    for (const { name, hostname } of [...(before?.listeners ?? []), ...(after?.listeners ?? [])]) {
      this.#mark({ gateway, listener: name, hostname });
    }
    for (const [listener, { byHost }] of this.#gateways.get(gateway) ?? []) {
      for (const hostname of byHost.keys()) this.#mark({ gateway, listener, hostname });
    }
    this.#changedGateways.add(gateway);
  }

  routesOf({ gateway, listener, hostname }: HostAddress): readonly TranslatedRoute[] {
    return [...(this.#gateways.get(gateway)?.get(listener)?.byHost.get(hostname)?.values() ?? [])];
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
    this.#changedHosts.set(`${host.gateway}/${host.listener}/${host.hostname}`, host);
    this.#changedGateways.add(host.gateway);
  }

  #add(key: ResourceKey, route: TranslatedRoute, host: HostAddress): void {
    const listeners = this.#gateways.get(host.gateway) ?? new Map<string, ListenerRoutes>();
    this.#gateways.set(host.gateway, listeners);
    const listener = listeners.get(host.listener) ?? { byHost: new Map(), routes: new Set() };
    listeners.set(host.listener, listener);
    const routes = listener.byHost.get(host.hostname) ?? new Map<ResourceKey, TranslatedRoute>();
    listener.byHost.set(host.hostname, routes);
    routes.set(key, route);
    listener.routes.add(key);
    this.#mark(host);
  }

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

function hostsOf(route: TranslatedRoute | undefined): readonly HostAddress[] {
  return (route?.attachments ?? []).flatMap(({ gateway, listener, hostnames }) =>
    hostnames.map((hostname) => ({
      gateway: `${gateway.namespace}/${gateway.name}`,
      listener: listener.name,
      hostname,
    })),
  );
}
