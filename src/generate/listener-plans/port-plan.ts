/**
 * Plans outbound listeners port by port: which services each serves as HTTP and as TCP, which service takes precedence
 * if two cannot share an address, and which route configurations the listeners request. Listeners and routes are both
 * generated from this plan, so that no listener waits for routes that do not exist.
 *
 * - HTTP: all services of a port share `0.0.0.0_<port>`, distinguished by the request's host.
 * - TCP with address: `<address>_<port>`; address ranges share `0.0.0.0_<port>`, distinguished by destination.
 * - TCP without address: `0.0.0.0_<port>`; a headless service has a listener for each of its pods.
 * - Undeclared: as TCP, and HTTP when the first bytes are HTTP (with protocol detection; without it, TCP).
 *
 * A Sidecar's egress listener with a port reserves the port for its services.
 */
import type { Memos } from '../../core/memo.ts';
import { compareText, type Service } from '../../model/index.ts';
import {
  addressKey,
  hasFamilyOf,
  isSocketPath,
  listenerName,
  loopbackBinds,
  outboundRouteName,
  serviceRouteName,
  wildcardBinds,
} from '../common/index.ts';
import { isTls, type ProtocolKind, protocolKind } from '../filters/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import type { GenerationFinding } from '../types.ts';
import { addressesOf, isUnspecified, socketPath } from './bind-addresses.ts';
import type {
  Egress,
  HttpTarget,
  OutboundListenerPlan,
  OutboundPlan,
  OutboundPortPlan,
  OutboundRoutePlan,
  PlanInput,
  PodTarget,
  TcpTarget,
} from './plan-types.ts';
import { ownerOfRange } from './range-owner.ts';
import { byPrecedence, httpEntries, httpTraits, ownHttpEntries, servedAs } from './served-services.ts';

export function makePlan(memos: Memos, listeners: readonly Egress[], input: PlanInput): OutboundPlan {
  const builders = new Map<number, PortBuilder>();
  const builderOf = (port: number) => {
    const known = builders.get(port) ?? new PortBuilder(memos, port, input);
    builders.set(port, known);
    return known;
  };
  for (const egress of listeners) if (egress.port !== undefined) builderOf(egress.port.number).addOwnPort(egress);
  const taken = new Set([...builders.keys()].filter((port) => port > 0));
  for (const egress of listeners) {
    if (egress.port !== undefined) continue;
    for (const [port, entries] of egress.services.byPort()) {
      if (!taken.has(port)) builderOf(port).addServices(egress, entries);
    }
  }
  const sorted = [...builders].sort(([a], [b]) => a - b);
  const routes = sorted.flatMap(([, builder]) => builder.routes());
  return {
    ports: new Map(sorted.map(([port, builder]) => [String(port), builder.plan()])),
    routes: new Map(routes.sort((a, b) => compareText(a.name, b.name)).map((route) => [route.name, route])),
  };
}

/** A listener while its port is planned. */
interface Draft extends OutboundListenerPlan {
  http: HttpTarget | undefined;
  undeclared: boolean;
  readonly tcp: TcpTarget[];
  readonly routes: OutboundRoutePlan[];
  /** The hostname of the first service, for messages. */
  readonly first: string;
}

/** The address of a listener, and whether all services of the port share it. */
interface Binding {
  readonly bind: string;
  readonly extraBind: string | undefined;
  /** One key for all spellings of the address. */
  readonly key: string;
  readonly shared: boolean;
  readonly range: string | undefined;
}

class PortBuilder {
  readonly #memos: Memos;
  readonly #port: number;
  readonly #input: PlanInput;
  readonly #drafts = new Map<string, Draft>();
  readonly #podTargets: PodTarget[] = [];
  /** Services of ServiceEntries, in order of precedence. */
  readonly #external: Service[] = [];
  readonly #takers = new Set<string>();
  readonly #httpPods = new Set<string>();
  readonly #conflicts: { metric: GenerationFinding['metric']; message: string }[] = [];

  constructor(memos: Memos, port: number, input: PlanInput) {
    this.#memos = memos;
    this.#port = port;
    this.#input = input;
  }

  /** Adds a Sidecar's egress listener with a port: the services that it imports, with its protocol. */
  addOwnPort(egress: Egress): void {
    const { port } = egress;
    if (port === undefined) return;
    const bound = this.#bindsToPort(egress);
    const binding = this.#sharedBinding(egress, bound);
    // The first listener at an address has it; repetitions in a Sidecar are ignored.
    if (this.#reservedFor(binding.bind) !== undefined || this.#drafts.has(binding.key)) return;
    const kind = protocolKind(port.protocol, this.#input.sniff);
    const draft = this.#draft(egress, binding, `${port.name || port.protocol} of the Sidecar`);
    if (port.proxy === true) {
      this.#setProxied(draft, egress);
      return;
    }
    if (kind !== 'tcp') {
      const entries = ownHttpEntries(this.#memos, egress.services, this.#port, this.#input.sniff);
      this.#setHttp(draft, this.#ownRouteName(draft), entries, undefined);
      for (const namespace of httpTraits(this.#memos, entries).headless) this.#httpPods.add(namespace);
    }
    if (kind === 'http') return;
    const services = egress.services.all().map(([, service]) => service);
    for (const service of services.sort(byPrecedence)) {
      const served = servedAs(service, this.#port, false);
      if (!this.#acceptsConnections(service, port.protocol)) continue;
      const target = { service, port: served?.port.port, protocol: port.protocol, range: undefined, shared: true };
      draft.tcp.push({ ...target, ...this.#resolving(service) });
      this.#takers.add(service.namespace);
    }
  }

  #ownRouteName({ bind }: Draft): string {
    return isSocketPath(bind) ? bind : outboundRouteName(this.#port);
  }

  /** The routes of a listener that is a proxy of its clients. */
  #setProxied(draft: Draft, { services }: Egress): void {
    const byPort = new Map<number, readonly ServicePortEntry[]>();
    for (const [port, entries] of services.byPort()) {
      const http = httpEntries(this.#memos, entries, this.#input.sniff);
      if (http.length > 0) byPort.set(port, http);
    }
    const name = this.#ownRouteName(draft);
    const all = [...byPort.values()].flat();
    draft.http = { routeName: name, grpcWeb: all.some(({ port }) => port.protocol === 'GRPC-Web') };
    draft.routes.push({ name, port: draft.port, egress: draft.egress, entries: [], byPort, host: undefined });
    for (const { service } of all) if (service.headless) this.#httpPods.add(service.namespace);
  }

  /** All services of the port; `entries` in the order of host names. */
  addServices(egress: Egress, entries: readonly ServicePortEntry[]): void {
    const shared = this.#sharedBinding(egress, this.#bindsToPort(egress));
    for (const entry of entries.toSorted((a, b) => byPrecedence(a.service, b.service))) {
      const kind = protocolKind(entry.port.protocol, this.#input.sniff);
      if (kind === 'tcp' && !this.#acceptsConnections(entry.service, entry.port.protocol)) continue;
      if (entry.service.registry === 'External') this.#external.push(entry.service);
      if (kind !== 'tcp' && entry.service.headless) this.#httpPods.add(entry.service.namespace);
      if (kind !== 'http' && this.#hasPodListeners(egress, entry)) {
        this.#addPods(egress, entry, kind, shared, entries);
        continue;
      }
      for (const binding of this.#bindingsOf(egress, entry, kind, shared))
        this.#add(egress, entry, kind, binding, entries);
    }
  }

  /** Whether each Pod of the service has its own listener, so that connections to other services never belong to it. */
  #hasPodListeners(egress: Egress, { service }: ServicePortEntry): boolean {
    if (this.#bindsToPort(egress) || egress.bind !== '') return false;
    return service.headless && this.#input.podListeners && service.resolution === 'passthrough';
  }

  /**
   * If the protocol is detected, the routes of the whole port are used, because its services are distinguished by host.
   */
  #addPods(
    egress: Egress,
    entry: ServicePortEntry,
    kind: ProtocolKind,
    shared: Binding,
    entries: readonly ServicePortEntry[],
  ): void {
    const { service, port } = entry;
    const target = { service, port: port.port, protocol: port.protocol, range: undefined, shared: false };
    let http: HttpTarget | undefined;
    if (kind === 'auto') {
      this.#add(egress, entry, 'http', shared, entries);
      const draft = this.#drafts.get(shared.key);
      if (draft !== undefined) draft.undeclared = true;
      http = draft?.http;
    }
    this.#podTargets.push({ target, http, egress: egress.index });
  }

  #bindingsOf(egress: Egress, { service }: ServicePortEntry, kind: ProtocolKind, shared: Binding): readonly Binding[] {
    if (kind === 'http' || this.#bindsToPort(egress) || egress.bind !== '') return [shared];
    const addresses = addressesOf(this.#memos, service);
    if (addresses.length === 0) return service.unaddressed === true ? [] : [shared];
    // Connections to addresses of a family that the machine does not have are impossible, and Envoy may reject a
    // listener for them.
    return addresses
      .filter((address) => hasFamilyOf(this.#input, 'range' in address ? address.range : address.bind))
      .map((address) =>
        'range' in address
          ? { ...shared, ...address }
          : { ...address, extraBind: undefined, shared: false, range: undefined },
      );
  }

  #add(
    egress: Egress,
    entry: ServicePortEntry,
    kind: ProtocolKind,
    binding: Binding,
    entries: readonly ServicePortEntry[],
  ): void {
    const { hostname } = entry.service;
    const reserved = this.#reservedFor(binding.bind);
    if (reserved !== undefined) {
      const message = `${hostname}: port ${this.#port} is reserved (${reserved})`;
      this.#conflicts.push({ metric: 'ctl_invalid_out_listeners', message });
      return;
    }
    const draft = this.#draft(egress, binding, hostname);
    if (this.#conflictsWith(draft, kind, hostname) || this.#rangeIsTaken(binding, entry, entries)) return;
    if (kind !== 'tcp' && !binding.shared) {
      this.#setHttp(draft, serviceRouteName(hostname, this.#port), [entry], hostname);
    } else if (kind !== 'tcp' && draft.http === undefined) {
      this.#setHttp(
        draft,
        outboundRouteName(this.#port),
        httpEntries(this.#memos, entries, this.#input.sniff),
        undefined,
      );
    }
    if (kind === 'http') return;
    const { service, port } = entry;
    if (!this.#acceptsConnections(service, port.protocol)) {
      draft.undeclared = true;
      return;
    }
    const target = { service, port: port.port, protocol: port.protocol, range: binding.range, shared: binding.shared };
    draft.tcp.push({ ...target, ...this.#resolving(service) });
    if (binding.shared) this.#takers.add(service.namespace);
  }

  /**
   * Whether the service accepts connections of a protocol. Plain TCP does not name a host that the proxy could resolve.
   */
  #acceptsConnections({ resolution }: Service, protocol: TcpTarget['protocol']): boolean {
    return resolution !== 'dynamic' || isTls(protocol);
  }

  #resolving({ resolution }: Service): Pick<TcpTarget, 'resolves'> {
    return resolution === 'dynamic' ? { resolves: this.#input.families } : {};
  }

  /** Whether a range would intercept the connections to a Kubernetes Service that shares the listener. */
  #rangeIsTaken({ range }: Binding, { service }: ServicePortEntry, entries: readonly ServicePortEntry[]): boolean {
    if (range === undefined) return false;
    const owner = ownerOfRange(range, entries, this.#input.sniff);
    if (owner === undefined || owner === service) return false;
    const message = `${service.hostname}: port ${this.#port} of ${range} already serves HTTP of ${owner.hostname}`;
    this.#conflicts.push({ metric: 'ctl_conflict_outbound_listener_tcp_over_current_http', message });
    return true;
  }

  /** Without protocol detection a listener is HTTP or TCP, like its first service. */
  #conflictsWith(draft: Draft, kind: ProtocolKind, hostname: string): boolean {
    if (this.#input.sniff) return false;
    const where = `${hostname}: port ${this.#port} at ${draft.bind}`;
    if (kind === 'http' && draft.tcp.length > 0) {
      const message = `${where} already serves TCP of ${draft.first}`;
      this.#conflicts.push({ metric: 'ctl_conflict_outbound_listener_http_over_current_tcp', message });
      return true;
    }
    if (kind === 'tcp' && draft.http !== undefined) {
      const message = `${where} already serves HTTP of ${draft.first}`;
      this.#conflicts.push({ metric: 'ctl_conflict_outbound_listener_tcp_over_current_http', message });
      return true;
    }
    return false;
  }

  #draft(egress: Egress, { bind, extraBind, key }: Binding, first: string): Draft {
    const known = this.#drafts.get(key);
    if (known !== undefined) return known;
    const port = isSocketPath(bind) ? 0 : this.#port;
    // Connections are not redirected to a socket path, so the listener must bind it.
    const bindToPort = port === 0 || this.#bindsToPort(egress);
    const draft: Draft = {
      bind,
      extraBind,
      port,
      bindToPort,
      egress: egress.index,
      http: undefined,
      undeclared: false,
      tcp: [],
      routes: [],
      first,
    };
    this.#drafts.set(key, draft);
    return draft;
  }

  /**
   * The first HTTP service decides which routes the listener requests. A service that lost its address to an older one
   * keeps its routes, so that their existence only depends on that service.
   */
  #setHttp(draft: Draft, routeName: string, entries: readonly ServicePortEntry[], host: string | undefined): void {
    const { grpcWeb, dynamicPort } = httpTraits(this.#memos, entries);
    draft.http ??= { routeName, grpcWeb, ...(dynamicPort !== undefined && { dynamicPort }) };
    draft.routes.push({ name: routeName, port: draft.port, egress: draft.egress, entries, host });
  }

  #bindsToPort({ captureMode }: Egress): boolean {
    return captureMode === 'NONE' || (captureMode === 'DEFAULT' && !this.#input.intercepted);
  }

  #sharedBinding({ bind }: Egress, bound: boolean): Binding {
    const binds =
      bind !== ''
        ? { bind: socketPath(bind) ?? bind, extraBind: undefined }
        : bound
          ? loopbackBinds(this.#input)
          : wildcardBinds(this.#input);
    return { ...binds, key: addressKey(binds.bind), shared: true, range: undefined };
  }

  /** The listener that has the address; undefined if it is free. */
  #reservedFor(bind: string): string | undefined {
    const { reserved, taken } = this.#input;
    if (reserved.includes(this.#port) && isUnspecified(bind)) return 'the proxy accepts redirected connections there';
    return taken.includes(listenerName(bind, this.#port)) ? 'the Sidecar has an ingress listener there' : undefined;
  }

  plan(): OutboundPortPlan {
    const listeners = [...this.#drafts.values()]
      .filter(({ http, tcp }) => http !== undefined || tcp.length > 0)
      .sort((a, b) => compareText(a.bind, b.bind))
      .map(({ bind, extraBind, port, bindToPort, http, undeclared, tcp, egress }) => {
        return { bind, extraBind: this.#freeExtraBind(extraBind), port, bindToPort, http, undeclared, tcp, egress };
      });
    const [takers, httpPods] = [this.#takers, this.#httpPods];
    return {
      unit: String(this.#port),
      listeners,
      podTargets: this.#podTargets,
      written: this.#written(),
      takers,
      httpPods,
      conflicts: this.#conflicts,
    };
  }

  #written(): ReadonlyMap<string, Service> {
    const written = new Map<string, Service>();
    if (this.#podTargets.length === 0) return written;
    for (const service of this.#external) {
      for (const address of addressesOf(this.#memos, service))
        if ('key' in address && !written.has(address.key)) written.set(address.key, service);
    }
    return written;
  }

  /**
   * An address that is the main address of another listener is not available: Envoy refuses all listeners with a
   * repeated address.
   */
  #freeExtraBind(extraBind: string | undefined): string | undefined {
    if (extraBind === undefined || this.#drafts.has(addressKey(extraBind))) return undefined;
    return this.#reservedFor(extraBind) === undefined ? extraBind : undefined;
  }

  routes(): OutboundRoutePlan[] {
    return [...this.#drafts.values()].flatMap((draft) => draft.routes);
  }
}
