/**
 * Outbound listeners port by port: what each serves as HTTP and as TCP, which service wins where two cannot share an
 * address, and which route configurations the listeners request. Listeners and routes are both generated from this
 * plan, so that no listener waits for routes that do not exist.
 *
 * - HTTP: all services of a port share `0.0.0.0_<port>`, distinguished by the request's host.
 * - TCP with address: `<address>_<port>`; address ranges share `0.0.0.0_<port>`, distinguished by destination.
 * - TCP without address: `0.0.0.0_<port>`, or a listener for each pod of a headless service.
 * - Undeclared: as TCP, and HTTP when the first bytes are HTTP (with protocol detection; without it, TCP).
 *
 * A Sidecar's egress listener with a port of its own takes the port for its services alone.
 */
import type { Memos } from '../../core/memo.ts';
import { compareText, type Protocol, type Service } from '../../model/index.ts';
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
import { type ProtocolKind, protocolKind } from '../filters/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import type { EgressReader } from '../reads/index.ts';
import type { GenerationFinding, NodeFamilies, Unit } from '../types.ts';
import { addressesOf, isUnspecified, socketPath } from './bind-addresses.ts';
import { ownerOfRange } from './range-owner.ts';
import { byPrecedence, servedAs } from './served-ports.ts';

/** TCP connections of a listener for one service. */
export interface TcpTarget {
  readonly service: Service;
  /** Port of the service that connections lead to; undefined when only a virtual service can determine it. */
  readonly port: number | undefined;
  /** Protocol of the port or, for a Sidecar's own port, of the egress listener. */
  readonly protocol: Protocol;
  /** Only connections to this address range. */
  readonly range: string | undefined;
  /** Whether connections to other services can reach the same listener: then the TLS server name distinguishes them. */
  readonly shared: boolean;
}

/** HTTP of a listener: the name of the routes and whether they lead to gRPC-Web services. */
export interface HttpTarget {
  readonly routeName: string;
  readonly grpcWeb: boolean;
}

/**
 * Index into a scope's egress listeners. A plan does not contain them: it outlives changes of their virtual services.
 */
export type EgressIndex = number;

/** One listener. With both HTTP and TCP, a connection's first bytes decide. */
export interface OutboundListenerPlan {
  readonly bind: string;
  /** The same for the other address family, on machines that have both; not for a listener of one service's address. */
  readonly extraBind: string | undefined;
  /** The port that clients use; 0 for a unix domain socket. */
  readonly port: number;
  readonly bindToPort: boolean;
  readonly http: HttpTarget | undefined;
  /** Precedence order. */
  readonly tcp: readonly TcpTarget[];
  /** The scope's egress listener that it comes from. */
  readonly egress: EgressIndex;
}

export interface OutboundPortPlan {
  /** Of listeners. */
  readonly unit: Unit;
  readonly listeners: readonly OutboundListenerPlan[];
  /** Services that have a listener for each of their pods; the pods are read when listeners are generated. */
  readonly podTargets: readonly { readonly target: TcpTarget; readonly egress: EgressIndex }[];
  readonly conflicts: readonly Pick<GenerationFinding, 'metric' | 'message'>[];
}

/** A route configuration that some outbound listener requests. */
export interface OutboundRoutePlan {
  readonly name: string;
  /** The port that clients use; 0 for a unix domain socket. */
  readonly port: number;
  readonly egress: EgressIndex;
  /** Services reached through it as HTTP with the port that serves them, each host once, in the order of host names. */
  readonly entries: readonly ServicePortEntry[];
  /** Set when only this service has the listener. */
  readonly host: string | undefined;
}

export interface OutboundPlan {
  /** Listener unit (the port) → its listeners; ascending. */
  readonly ports: ReadonlyMap<string, OutboundPortPlan>;
  /** Ascending by name. */
  readonly routes: ReadonlyMap<string, OutboundRoutePlan>;
}

/** The part of an egress listener that the plan depends on: everything but its virtual services. */
export type Egress = Omit<EgressReader, 'virtualServices'> & { readonly index: EgressIndex };

/** The plan's inputs besides the egress listeners. */
export interface PlanInput {
  readonly sniff: boolean;
  readonly intercepted: boolean;
  readonly families: NodeFamilies;
  readonly podListeners: boolean;
  /** Ports where redirected connections arrive: no other listener can have them. */
  readonly reserved: readonly number[];
  /** Names of the workload's own inbound listeners. */
  readonly taken: readonly string[];
}

/** Plans all ports. */
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
  readonly tcp: TcpTarget[];
  readonly routes: OutboundRoutePlan[];
  /** The first service, for messages. */
  readonly first: string;
}

/** Where something is added: the listener's address, and whether all services of the port share it. */
interface Binding {
  readonly bind: string;
  readonly extraBind: string | undefined;
  /** One key for all spellings of the address. */
  readonly key: string;
  readonly shared: boolean;
  readonly range: string | undefined;
}

/** Plans one port. */
class PortBuilder {
  readonly #memos: Memos;
  readonly #port: number;
  readonly #input: PlanInput;
  readonly #drafts = new Map<string, Draft>();
  readonly #podTargets: { target: TcpTarget; egress: EgressIndex }[] = [];
  readonly #conflicts: { metric: GenerationFinding['metric']; message: string }[] = [];

  constructor(memos: Memos, port: number, input: PlanInput) {
    this.#memos = memos;
    this.#port = port;
    this.#input = input;
  }

  /**
   * A Sidecar's egress listener with a port of its own: the services that it imports, with the protocol that it names.
   */
  addOwnPort(egress: Egress): void {
    const { port } = egress;
    if (port === undefined) return;
    const bound = this.#bindsToPort(egress);
    const binding = this.#sharedBinding(egress, bound);
    // The first listener at an address has it; repetitions in a Sidecar are ignored.
    if (this.#reservedFor(binding.bind) !== undefined || this.#drafts.has(binding.key)) return;
    const kind = protocolKind(port.protocol, this.#input.sniff);
    const services = egress.services.all().map(([, service]) => service);
    const draft = this.#draft(egress, binding, `${port.name || port.protocol} of the Sidecar`);
    if (kind !== 'tcp') {
      const entries = services.flatMap((service) => servedAs(service, this.#port, true) ?? []);
      const routeName = isSocketPath(binding.bind) ? binding.bind : outboundRouteName(this.#port);
      this.#setHttp(draft, routeName, entries, undefined);
    }
    if (kind === 'http') return;
    for (const service of services.toSorted(byPrecedence)) {
      const served = servedAs(service, this.#port, false);
      const target = { service, port: served?.port.port, protocol: port.protocol, range: undefined, shared: true };
      draft.tcp.push(target);
    }
  }

  /** All services of the port; `entries` in the order of host names. */
  addServices(egress: Egress, entries: readonly ServicePortEntry[]): void {
    const shared = this.#sharedBinding(egress, this.#bindsToPort(egress));
    for (const entry of entries.toSorted((a, b) => byPrecedence(a.service, b.service))) {
      const kind = protocolKind(entry.port.protocol, this.#input.sniff);
      for (const binding of this.#bindingsOf(egress, entry, kind, shared))
        this.#add(egress, entry, kind, binding, entries);
    }
  }

  #bindingsOf(
    egress: Egress,
    { service, port }: ServicePortEntry,
    kind: ProtocolKind,
    shared: Binding,
  ): readonly Binding[] {
    if (kind === 'http' || this.#bindsToPort(egress) || egress.bind !== '') return [shared];
    if (service.headless && kind === 'tcp' && this.#input.podListeners && service.resolution === 'passthrough') {
      const target = { service, port: port.port, protocol: port.protocol, range: undefined, shared: false };
      this.#podTargets.push({ target, egress: egress.index });
      return [];
    }
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
      const message = `${hostname}: port ${this.#port} is where ${reserved}`;
      this.#conflicts.push({ metric: 'ctl_invalid_out_listeners', message });
      return;
    }
    const draft = this.#draft(egress, binding, hostname);
    if (this.#conflictsWith(draft, kind, hostname) || this.#rangeIsTaken(binding, entry, entries)) return;
    if (kind !== 'tcp' && !binding.shared) {
      this.#setHttp(draft, serviceRouteName(hostname, this.#port), [entry], hostname);
    } else if (kind !== 'tcp' && draft.http === undefined) {
      this.#setHttp(draft, outboundRouteName(this.#port), this.#httpEntries(entries), undefined);
    }
    if (kind === 'http') return;
    const { service, port } = entry;
    draft.tcp.push({ service, port: port.port, protocol: port.protocol, range: binding.range, shared: binding.shared });
  }

  /**
   * Whether a range would take the connections to an orchestrator Service that shares the listener, or to pods of a
   * headless one.
   */
  #rangeIsTaken({ range }: Binding, { service }: ServicePortEntry, entries: readonly ServicePortEntry[]): boolean {
    if (range === undefined) return false;
    const excluded = service.excludedRanges?.find((each) => each.range === range && each.port === this.#port);
    const owner = ownerOfRange(range, entries, this.#input.sniff);
    if (excluded === undefined && (owner === undefined || owner === service)) return false;
    const whose =
      excluded === undefined ? `HTTP of ${owner?.hostname}` : `that of the headless Service of ${excluded.owner}`;
    const message = `${service.hostname}: port ${this.#port} of ${range} is ${whose} already`;
    this.#conflicts.push({ metric: 'ctl_conflict_outbound_listener_tcp_over_current_http', message });
    return true;
  }

  /** Without protocol detection a listener is HTTP or TCP, like its first service. */
  #conflictsWith(draft: Draft, kind: ProtocolKind, hostname: string): boolean {
    if (this.#input.sniff) return false;
    const where = `${hostname}: port ${this.#port} at ${draft.bind}`;
    if (kind === 'http' && draft.tcp.length > 0) {
      const message = `${where} is TCP of ${draft.first} already`;
      this.#conflicts.push({ metric: 'ctl_conflict_outbound_listener_http_over_current_tcp', message });
      return true;
    }
    if (kind === 'tcp' && draft.http !== undefined) {
      const message = `${where} is HTTP of ${draft.first} already`;
      this.#conflicts.push({ metric: 'ctl_conflict_outbound_listener_tcp_over_current_http', message });
      return true;
    }
    return false;
  }

  #httpEntries(entries: readonly ServicePortEntry[]): ServicePortEntry[] {
    return entries.filter(({ port }) => protocolKind(port.protocol, this.#input.sniff) !== 'tcp');
  }

  #draft(egress: Egress, { bind, extraBind, key }: Binding, first: string): Draft {
    const known = this.#drafts.get(key);
    if (known !== undefined) return known;
    const port = isSocketPath(bind) ? 0 : this.#port;
    // No connections are redirected to a socket path: it exists only when it is bound.
    const bindToPort = port === 0 || this.#bindsToPort(egress);
    const draft: Draft = {
      bind,
      extraBind,
      port,
      bindToPort,
      egress: egress.index,
      http: undefined,
      tcp: [],
      routes: [],
      first,
    };
    this.#drafts.set(key, draft);
    return draft;
  }

  /**
   * The first HTTP service decides which routes the listener requests. A service that lost its address to an older one
   * keeps its routes planned: whether they exist then depends on that service alone, not on other services.
   */
  #setHttp(draft: Draft, routeName: string, entries: readonly ServicePortEntry[], host: string | undefined): void {
    draft.http ??= { routeName, grpcWeb: entries.some(({ port }) => port.protocol === 'GRPC-Web') };
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

  /** The listener that has the address; undefined: it is free. */
  #reservedFor(bind: string): string | undefined {
    const { reserved, taken } = this.#input;
    if (reserved.includes(this.#port) && isUnspecified(bind)) return 'the proxy takes in redirected connections';
    return taken.includes(listenerName(bind, this.#port)) ? 'the Sidecar has an ingress listener' : undefined;
  }

  plan(): OutboundPortPlan {
    const listeners = [...this.#drafts.values()]
      .filter(({ http, tcp }) => http !== undefined || tcp.length > 0)
      .sort((a, b) => compareText(a.bind, b.bind))
      .map(({ bind, extraBind, port, bindToPort, http, tcp, egress }) => {
        return { bind, extraBind: this.#freeExtraBind(extraBind), port, bindToPort, http, tcp, egress };
      });
    return { unit: String(this.#port), listeners, podTargets: this.#podTargets, conflicts: this.#conflicts };
  }

  /**
   * An address that another listener names as its own belongs to that one: Envoy refuses all listeners for a repeated
   * address.
   */
  #freeExtraBind(extraBind: string | undefined): string | undefined {
    if (extraBind === undefined || this.#drafts.has(addressKey(extraBind))) return undefined;
    return this.#reservedFor(extraBind) === undefined ? extraBind : undefined;
  }

  routes(): OutboundRoutePlan[] {
    return [...this.#drafts.values()].flatMap((draft) => draft.routes);
  }
}
