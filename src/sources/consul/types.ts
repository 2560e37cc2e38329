/** The settings of the source for Consul. */
import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { DocumentLimits } from '../../resources/index.ts';

/** How much of what the leader knows an answer has to contain (Consul: consistency modes). */
export const CONSISTENCY_MODES = ['default', 'stale', 'consistent'] as const;
export type Consistency = (typeof CONSISTENCY_MODES)[number];

export interface ConsulSettings {
  /** Servers or agents of one Consul cluster, http or https; one is asked, the next when it fails. */
  readonly servers: readonly URL[];
  /** Namespace of the mesh that the services are in. */
  readonly namespace: string;
  /** Datacenters that are read; `''` is that of the server. */
  readonly datacenters: readonly string[];
  /** Namespace and partition in Consul, for servers that have them; `''`: the token's. */
  readonly consulNamespace: string;
  readonly partition: string;
  /** File with the ACL token; `''`: none. */
  readonly tokenFile: string;
  /** File with the certificates of the authorities that sign those of https servers; `''`: the system's. */
  readonly caFile: string;
  readonly consistency: Consistency;
  /** How long a blocking query waits for a change, ms. */
  readonly waitMs: number;
  /** Limit for a response that does not wait, ms. */
  readonly timeoutMs: number;
  /** Requests about single services at once, in each datacenter. */
  readonly maxRequests: number;
  /** Services that are read again each second because something changed and nothing says which. */
  readonly sweepQps: number;
  /** How long missing services and instances stay after an implausible loss, ms; 0: not. */
  readonly holdMs: number;
  readonly maxServices: number;
  readonly maxInstances: number;
  /** Memory of all instances of a datacenter, and of those of one service, bytes. */
  readonly maxBytes: number;
  readonly maxServiceBytes: number;
  /** Whether instances with warnings are not used. */
  readonly passingOnly: boolean;
}

export interface ConsulSourceOptions extends ConsulSettings {
  readonly cluster: string;
  readonly log: Log;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly limits?: DocumentLimits;
}
