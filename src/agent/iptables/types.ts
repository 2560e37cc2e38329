/**
 * The types of traffic redirection: the user's request (`Redirection`), the packet filter rules for it (`TableRules`),
 * and the commands that apply or remove them.
 *
 *   settings ─▶ Redirection ─▶ TableRules ─┬─▶ one iptables-restore transaction per table
 *                        existing rules ───┘
 */

export type Family = 'ipv4' | 'ipv6';

/** How inbound connections reach the proxy: with a rewritten destination, or unchanged through a transparent socket. */
export type Interception =
  | { readonly mode: 'REDIRECT' }
  /** Packets for the proxy have `mark`, and routing table `routeTable` delivers them here. */
  | { readonly mode: 'TPROXY'; readonly mark: number; readonly routeTable: number };

/** Everything (`*`), or exactly these. */
export type Included<T> = '*' | readonly T[];

/** Captured DNS: the queries of applications to the machine's name servers. */
export interface DnsCapture {
  /** The port on loopback that answers the queries. */
  readonly port: number;
  /** The agent answers over UDP and TCP, Envoy over UDP only. */
  readonly protocols: readonly ('udp' | 'tcp')[];
  /** The name servers whose queries are captured, without the zones of IPv6 addresses. */
  readonly servers: readonly string[];
}

/** The traffic to redirect, checked and complete. Ports are TCP ports. */
export interface Redirection {
  readonly interception: Interception;
  /** The proxy's port for outbound traffic of the application. */
  readonly proxyPort: number;
  /** The proxy's port for inbound traffic to the application. */
  readonly inboundPort: number;
  /** A port of the proxy itself: never redirected. */
  readonly tunnelPort: number;
  readonly inboundPorts: Included<number>;
  /** Applies when all inbound ports are included. */
  readonly inboundPortsExcluded: readonly number[];
  /** Redirected in addition to `cidrs`. */
  readonly outboundPorts: readonly number[];
  readonly outboundPortsExcluded: readonly number[];
  readonly cidrs: Included<string>;
  /** Applies when all destinations are included. */
  readonly cidrsExcluded: readonly string[];
  /** Traffic from these interfaces is treated as if an application here had sent it. */
  readonly virtualInterfaces: readonly string[];
  /** Traffic of these users and groups is the proxy's own, and not redirected back to it. */
  readonly proxyUids: readonly number[];
  readonly proxyGids: readonly number[];
  /** Undefined: queries are not captured. */
  readonly dns: DnsCapture | undefined;
}

export type TableName = 'nat' | 'mangle' | 'raw';

/** A chain of meshd with its rules in order, as iptables expects them after `-A CHAIN`. */
export interface Chain {
  readonly name: string;
  readonly rules: readonly string[];
}

/**
 * All chains and jumps of meshd in one table. `jumps` lead from the built-in chains to them: `PREROUTING -p tcp -j
 * MESH_INBOUND`. Each jump is in `FOOTPRINT`, which also says whether it precedes the rules of others.
 */
export interface TableRules {
  readonly table: TableName;
  readonly chains: readonly Chain[];
  readonly jumps: readonly string[];
}
