/** Virtual services as generation reads them: every question is a fact. */
import type { ResolvedVirtualService } from '../../model/types.ts';
import { targetHosts, virtualServicesFor } from '../indexes/index.ts';
import * as fact from './facts.ts';
import { note } from './recorder.ts';

type List = readonly ResolvedVirtualService[];

/** Clients of the port that plain HTTP has by default may use virtual hosts that are no services. */
export const DEFAULT_HTTP_PORT = 80;

/** Whether a virtual service takes part in listeners (TCP and TLS routes) and not only in routes. */
export function routesConnections({ content: { tcp, tls } }: ResolvedVirtualService): boolean {
  return (tcp?.length ?? 0) > 0 || (tls?.length ?? 0) > 0;
}

export function routesRequests({ content: { http } }: ResolvedVirtualService): boolean {
  return (http?.length ?? 0) > 0;
}

const connectionLists = new WeakMap<List, List>();
const NO_ROUTES: List = [];

function connectionsOf(list: List): List {
  let routing = connectionLists.get(list);
  if (routing === undefined) {
    const found = list.filter(routesConnections);
    routing = found.length === 0 ? NO_ROUTES : found;
    connectionLists.set(list, routing);
  }
  return routing;
}

/** Those of an egress listener, in precedence order. One object for the same list, so that results can be remembered by it. */
export class VirtualServices {
  readonly #list: List;
  /** Whether the reading of all of them is noted already. */
  readonly #noted: boolean;

  private constructor(list: List, noted = false) {
    this.#list = list;
    this.#noted = noted;
  }

  static readonly #known = new WeakMap<List, VirtualServices>();

  static of(list: List): VirtualServices {
    const known = VirtualServices.#known.get(list) ?? new VirtualServices(list);
    VirtualServices.#known.set(list, known);
    return known;
  }

  /**
   * Those that route requests which may come to a port: with what `find` finds of them among the services there. At the port that plain
   * HTTP has by default those of which nothing is found, too.
   */
  *at<Found extends { readonly services: readonly unknown[] }>(
    port: number,
    find: (virtualService: ResolvedVirtualService) => Found,
  ): Generator<readonly [virtualService: ResolvedVirtualService, found: Found]> {
    if (!this.#noted) note(fact.routesAt(port));
    for (const virtualService of this.#list) {
      if (!routesRequests(virtualService)) continue;
      const found = find(virtualService);
      if (found.services.length > 0 || port === DEFAULT_HTTP_PORT) yield [virtualService, found];
    }
  }

  /** Those that route requests to a host, themselves such a list. */
  for(host: string): VirtualServices {
    note(fact.routesFor(host));
    return new VirtualServices(virtualServicesFor(this.#list, host).filter(routesRequests), true);
  }

  /** Those that route connections: most route only requests. One object where there are none. */
  get connections(): ConnectionRoutes {
    return ConnectionRoutes.of(connectionsOf(this.#list));
  }
}

/** Virtual services that route connections. */
export class ConnectionRoutes {
  readonly #list: List;

  private constructor(list: List) {
    this.#list = list;
  }

  static readonly #known = new WeakMap<List, ConnectionRoutes>();

  static of(list: List): ConnectionRoutes {
    const known = ConnectionRoutes.#known.get(list) ?? new ConnectionRoutes(list);
    ConnectionRoutes.#known.set(list, known);
    return known;
  }

  /** Those that route the connections to a host, which come to a listener of this port. */
  for(host: string, port: number): List {
    note(fact.connectionsAt(port));
    return this.#list.length === 0 ? NO_ROUTES : virtualServicesFor(this.#list, host);
  }
}

/** Those that are bound to a gateway, in precedence order. */
export class GatewayRoutes {
  readonly #gateway: string;
  readonly #list: List;

  constructor(gateway: string, list: List) {
    this.#gateway = gateway;
    this.#list = list;
  }

  requests(): List {
    note(fact.gatewayRoutes(this.#gateway));
    return this.#list.filter(routesRequests);
  }

  connections(): List {
    note(fact.gatewayConnections(this.#gateway));
    return connectionsOf(this.#list);
  }

  leadTo(host: string): boolean {
    note(fact.target(this.#gateway, host));
    return targetHosts(this.#list).has(host);
  }

  targets(): ReadonlySet<string> {
    note(fact.targets(this.#gateway));
    return targetHosts(this.#list);
  }
}
