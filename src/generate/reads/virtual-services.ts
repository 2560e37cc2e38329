/** Virtual services for generation: every query is a fact. */
import type { Memos } from '../../core/memo.ts';
import type { ResolvedVirtualService } from '../../model/index.ts';
import { targetHosts, virtualServicesFor, virtualServicesForAny } from '../indexes/index.ts';
import * as fact from './facts.ts';
import { note } from './recorder.ts';

type List = readonly ResolvedVirtualService[];

/** Clients of the default HTTP port may use virtual hosts that are not services. */
export const DEFAULT_HTTP_PORT = 80;

/** Whether a virtual service affects listeners (TCP and TLS routes) and not only routes. */
export function routesConnections({ content: { tcp, tls } }: ResolvedVirtualService): boolean {
  return (tcp?.length ?? 0) > 0 || (tls?.length ?? 0) > 0;
}

export function routesRequests({ content: { http } }: ResolvedVirtualService): boolean {
  return (http?.length ?? 0) > 0;
}

const NO_ROUTES: List = [];

function connectionsOf(memos: Memos, list: List): List {
  return memos.weak<List, List>('routes of connections').get(list, () => {
    const found = list.filter(routesConnections);
    return found.length === 0 ? NO_ROUTES : found;
  });
}

function requestsOf(memos: Memos, list: List): List {
  return memos.weak<List, List>('routes of requests').get(list, () => list.filter(routesRequests));
}

/**
 * The virtual services of an egress listener, in precedence order. One object for the same list, so that results can be
 * cached by it.
 */
export class VirtualServices {
  readonly #list: List;
  /** Whether a read of all of them is recorded already. */
  readonly #noted: boolean;

  readonly #memos: Memos;

  private constructor(memos: Memos, list: List, noted = false) {
    this.#memos = memos;
    this.#list = list;
    this.#noted = noted;
  }

  static of(memos: Memos, list: List): VirtualServices {
    return memos.weak<List, VirtualServices>('read virtual services').get(list, () => new VirtualServices(memos, list));
  }

  /**
   * The virtual services that route requests at a port, each with the services that `find` returns for it there. At the
   * default HTTP port, also the virtual services for which it returns no services.
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

  /** The virtual services that route requests to a host, as another such list. */
  for(host: string): VirtualServices {
    note(fact.routesFor(host));
    return new VirtualServices(
      this.#memos,
      virtualServicesFor(this.#memos, this.#list, host).filter(routesRequests),
      true,
    );
  }

  /** The virtual services that route connections (most only route requests). A shared object if there are none. */
  get connections(): ConnectionRoutes {
    return ConnectionRoutes.of(this.#memos, connectionsOf(this.#memos, this.#list));
  }
}

export class ConnectionRoutes {
  readonly #memos: Memos;
  readonly #list: List;

  private constructor(memos: Memos, list: List) {
    this.#memos = memos;
    this.#list = list;
  }

  static of(memos: Memos, list: List): ConnectionRoutes {
    return memos.weak<List, ConnectionRoutes>('read connections').get(list, () => new ConnectionRoutes(memos, list));
  }

  /** The virtual services that route the connections to a host at a listener of this port. */
  for(host: string, port: number): List {
    note(fact.connectionsAt(port));
    return this.#list.length === 0 ? NO_ROUTES : virtualServicesFor(this.#memos, this.#list, host);
  }
}

/** The virtual services that are bound to a gateway, in precedence order. */
export class GatewayRoutes {
  readonly #gateway: string;
  readonly #list: List;

  readonly #memos: Memos;

  constructor(memos: Memos, gateway: string, list: List) {
    this.#memos = memos;
    this.#gateway = gateway;
    this.#list = list;
  }

  /** The virtual services that route requests and may have a host in common with these. */
  requests(hosts: readonly string[]): List {
    note(fact.gatewayRoutes(this.#gateway));
    return virtualServicesForAny(this.#memos, requestsOf(this.#memos, this.#list), hosts);
  }

  /** The same for connections. */
  connections(hosts: readonly string[]): List {
    note(fact.gatewayConnections(this.#gateway));
    return virtualServicesForAny(this.#memos, connectionsOf(this.#memos, this.#list), hosts);
  }

  leadTo(host: string): boolean {
    note(fact.target(this.#gateway, host));
    return targetHosts(this.#memos, this.#list).has(host);
  }

  targets(): ReadonlySet<string> {
    note(fact.targets(this.#gateway));
    return targetHosts(this.#memos, this.#list);
  }
}
