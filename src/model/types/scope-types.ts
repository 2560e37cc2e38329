/** Scopes, and the configuration that is visible in them: part of the snapshot's data (`types.ts`). */
import type { PMap } from '../../core/pmap.ts';
import type { ConnectionPool, Destination, Resource, ResourceKey } from '../../resources/index.ts';
import type { Protocol, Service } from './service-types.ts';

export type VirtualService = Resource<'VirtualService'>;

export type Gateway = Resource<'Gateway'>;

export type SidecarResource = Resource<'Sidecar'>;

/**
 * The destination rules for one host, merged for one scope (the rules of one namespace; subsets are merged, and the
 * first policy is used).
 */
export interface MergedDestinationRule {
  readonly host: string;
  /** Namespace of the rules, for `exportTo` and short names. */
  readonly namespace: string;
  readonly trafficPolicy: Resource<'DestinationRule'>['content']['trafficPolicy'];
  readonly subsets: NonNullable<Resource<'DestinationRule'>['content']['subsets']>;
  /** Settings that replace those of the rules at gateways: see `gatewaysOnly` of the derived fields. */
  readonly atGateways?: Resource<'DestinationRule'>['content']['trafficPolicy'];
  /** The merged rules, oldest first, including those of the variants. */
  readonly sources: readonly ResourceKey[];
  /** The rules for proxies with some labels, in order of precedence: see `selectedRule`. */
  readonly variants?: readonly RuleVariant[];
  /** Set if proxies that no variant selects have no rule. */
  readonly onlyVariants?: true;
}

/** Rules with a `workloadSelector`. */
export interface RuleVariant {
  readonly labels: Readonly<Record<string, string>>;
  readonly rule: MergedDestinationRule;
}

/** A virtual service with hosts, gateways and destinations resolved to full names: what generation reads. */
export interface ResolvedVirtualService {
  readonly key: ResourceKey;
  readonly namespace: string;
  readonly name: string;
  /** Fully qualified, `*` wildcards kept. */
  readonly hosts: readonly string[];
  /** `namespace/name` of gateways, or `mesh`. Never empty. */
  readonly gateways: readonly string[];
  /** Content with every destination host fully qualified. */
  readonly content: VirtualService['content'];
  readonly created: number | undefined;
}

/** One egress listener of a scope. The default scope has one for all ports, and that of `proxyHttpPort`. */
export interface EgressListener {
  /** Sidecar egress `port`; absent: every port of the imported services. */
  readonly port:
    | {
        readonly number: number;
        readonly protocol: Protocol;
        readonly name: string;
        /** Set for HTTP_PROXY: clients name hosts and ports in their requests, so it has the services of all ports. */
        readonly proxy?: true;
      }
    | undefined;
  readonly bind: string;
  readonly captureMode: 'DEFAULT' | 'IPTABLES' | 'NONE';
  /**
   * The services visible through this listener, by host name: the scope's own namespace takes precedence, then the
   * oldest service.
   */
  readonly services: PMap<Service>;
  /** For gateway `mesh`, in precedence order (oldest first, then by namespace/name). */
  readonly virtualServices: readonly ResolvedVirtualService[];
}

/**
 * The configuration that a namespace's proxies, or those that a Sidecar selects, can see. A scope is shared by all
 * proxies of the same namespace and Sidecar. A scope that a change does not touch is the same object in the next
 * snapshot.
 */
export interface Scope {
  /**
   * `namespace/` for the default scope, `namespace/sidecarName` for one of the namespace's own Sidecars,
   * `namespace/rootNamespace/sidecarName` when the root namespace's Sidecar applies here.
   */
  readonly id: string;
  readonly namespace: string;
  readonly sidecar: ResourceKey | undefined;
  readonly egress: readonly EgressListener[];
  /** Union over egress listeners. */
  readonly services: PMap<Service>;
  /** Sidecar ingress listeners as written; undefined: inbound listeners are derived from the bound services. */
  readonly ingress: NonNullable<SidecarResource['content']['ingress']> | undefined;
  readonly outboundTrafficPolicy: 'ALLOW_ANY' | 'REGISTRY_ONLY';
  /** Limits of connections to the workload itself, unless an ingress listener has its own. */
  readonly inboundConnectionPool?: ConnectionPool;
  /** The destination of unknown traffic, with a full host name; only with ALLOW_ANY. */
  readonly egressProxy?: Destination;
  /**
   * The merged rule for a service of this scope: from the scope's namespace, else from the service's, else from the
   * root namespace. Which of its variants applies depends on the proxy. Undefined for hosts that are not services of
   * the scope. A function object always returns the same results; scopes with the same rules may share it.
   */
  destinationRule(hostname: string): MergedDestinationRule | undefined;
}
