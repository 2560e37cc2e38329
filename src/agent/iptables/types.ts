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
}

export type TableName = 'nat' | 'mangle';

/** A chain of meshd with its rules in order, as iptables expects them after `-A CHAIN`. */
export interface Chain {
  readonly name: string;
  readonly rules: readonly string[];
}

/**
 * All chains and jumps of meshd in one table. `jumps` lead from the built-in chains to them: `PREROUTING -p tcp -j
 * MESH_INBOUND`.
 */
export interface TableRules {
  readonly table: TableName;
  readonly chains: readonly Chain[];
  readonly jumps: readonly string[];
}
