/** Virtual services as generation reads them: every question is a fact. */
import type { Memos } from '../../core/memo.ts';
import type { ResolvedVirtualService } from '../../model/index.ts';
import { targetHosts, virtualServicesFor, virtualServicesForAny } from '../indexes/index.ts';
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
 * Those of an egress listener, in precedence order. One object for the same list, so that results can be remembered by
 * it.
 */
export class VirtualServices {
  readonly #list: List;
  /** Whether the reading of all of them is noted already. */
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
   * Those that route requests which may come to a port: with what `find` finds of them among the services there. At the
   * port that plain HTTP has by default those of which nothing is found, too.
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
    return new VirtualServices(
      this.#memos,
      virtualServicesFor(this.#memos, this.#list, host).filter(routesRequests),
      true,
    );
  }

  /** Those that route connections: most route only requests. One object where there are none. */
  get connections(): ConnectionRoutes {
    return ConnectionRoutes.of(this.#memos, connectionsOf(this.#memos, this.#list));
  }
}

/** Virtual services that route connections. */
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

  /** Those that route the connections to a host, which come to a listener of this port. */
  for(host: string, port: number): List {
    note(fact.connectionsAt(port));
    return this.#list.length === 0 ? NO_ROUTES : virtualServicesFor(this.#memos, this.#list, host);
  }
}

/** Those that are bound to a gateway, in precedence order. */
export class GatewayRoutes {
  readonly #gateway: string;
  readonly #list: List;

  readonly #memos: Memos;

  constructor(memos: Memos, gateway: string, list: List) {
    this.#memos = memos;
    this.#gateway = gateway;
    this.#list = list;
  }

  /** Those that route requests, and that may have a host in common with these. */
  requests(hosts: readonly string[]): List {
    note(fact.gatewayRoutes(this.#gateway));
    return virtualServicesForAny(this.#memos, requestsOf(this.#memos, this.#list), hosts);
  }

  /** The same of connections. */
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
