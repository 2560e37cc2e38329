/** The types of plans of outbound ports, and their inputs: see `port-plan.ts`. */
import type { Protocol, Service } from '../../model/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import type { EgressReader } from '../reads/index.ts';
import type { GenerationFinding, Unit } from '../types.ts';
import type { NodeFamilies } from '../views.ts';

/** TCP connections of a listener for one service. */
export interface TcpTarget {
  readonly service: Service;
  /** Port of the service that connections lead to; undefined when only a virtual service can determine it. */
  readonly port: number | undefined;
  /** Protocol of the port or, for a Sidecar's own port, of the egress listener. */
  readonly protocol: Protocol;
  /** Only connections to this address range. */
  readonly range: string | undefined;
  /**
   * Whether connections to other services can reach the same listener, so that they are distinguished by TLS server
   * name.
   */
  readonly shared: boolean;
  /** Set if the proxy resolves the server name of each connection, to addresses of these families. */
  readonly resolves?: NodeFamilies;
}

/** HTTP of a listener: the name of its route configuration, and properties of the services behind it. */
export interface HttpTarget {
  readonly routeName: string;
  /** Whether there are gRPC-Web services behind it. */
  readonly grpcWeb: boolean;
  /** The port of services whose names the proxy resolves for each request; absent if there are none. */
  readonly dynamicPort?: number;
}

/** A service that has a listener for each of its pods. */
export interface PodTarget {
  readonly target: TcpTarget;
  /** Set if HTTP is detected: the routes of the port that all services share. */
  readonly http: HttpTarget | undefined;
  readonly egress: EgressIndex;
}

/**
 * Index into a scope's egress listeners. A plan does not contain the listeners, because it stays valid when their
 * virtual services change.
 */
export type EgressIndex = number;

/** One listener. With both HTTP and TCP, a connection's first bytes decide. */
export interface OutboundListenerPlan {
  readonly bind: string;
  /** The address of the other family, on machines with both; not for a listener at one service's address. */
  readonly extraBind: string | undefined;
  /** The port that clients use; 0 for a unix domain socket. */
  readonly port: number;
  readonly bindToPort: boolean;
  readonly http: HttpTarget | undefined;
  /** Whether connections may have another protocol than HTTP although there is no TCP target. */
  readonly undeclared: boolean;
  /** In precedence order. */
  readonly tcp: readonly TcpTarget[];
  /** The scope's egress listener that it is made from. */
  readonly egress: EgressIndex;
}

export interface OutboundPortPlan {
  /** The unit of listeners. */
  readonly unit: Unit;
  readonly listeners: readonly OutboundListenerPlan[];
  /** The pods are read when listeners are generated. */
  readonly podTargets: readonly PodTarget[];
  /**
   * Address (`addressKey`) → the ServiceEntry service that has it on this port, with any protocol. Only for ports with
   * {@link podTargets}.
   */
  readonly written: ReadonlyMap<string, Service>;
  /** Namespaces of the services that receive connections of a shared listener. */
  readonly takers: ReadonlySet<string>;
  /** Namespaces of the headless services whose pods serve HTTP. */
  readonly httpPods: ReadonlySet<string>;
  readonly conflicts: readonly Pick<GenerationFinding, 'metric' | 'message'>[];
}

/** A route configuration that some outbound listener requests. */
export interface OutboundRoutePlan {
  readonly name: string;
  /** The port that clients use; 0 for a unix domain socket. */
  readonly port: number;
  readonly egress: EgressIndex;
  /** The HTTP services that it has routes to, with their ports, each host once, in the order of host names. */
  readonly entries: readonly ServicePortEntry[];
  /**
   * Set for a listener that is a proxy of its clients, in place of {@link entries}: the HTTP services of each port,
   * ascending. Clients name the port, unless it is 80.
   */
  readonly byPort?: ReadonlyMap<number, readonly ServicePortEntry[]>;
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

/** The plan's inputs in addition to the egress listeners. */
export interface PlanInput {
  readonly sniff: boolean;
  readonly intercepted: boolean;
  readonly families: NodeFamilies;
  readonly podListeners: boolean;
  /** Ports at which redirected connections arrive, which no other listener can have. */
  readonly reserved: readonly number[];
  /** Names of the workload's own inbound listeners. */
  readonly taken: readonly string[];
}
