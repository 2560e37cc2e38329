/**
 * Traffic redirection: what a user asks for (`Redirection`), the packet filter rules that do it (`TableRules`), and the
 * commands that put them in place or take them away.
 *
 *   settings ─▶ Redirection ─▶ TableRules ─┬─▶ one iptables-restore transaction per table
 *                      what stands there ──┘
 */

export type Family = 'ipv4' | 'ipv6';

/** How inbound connections reach the proxy: by rewriting where they go, or untouched through a transparent socket. */
export type Interception =
  | { readonly mode: 'REDIRECT' }
  /** Packets for the proxy carry `mark`, and routing table `routeTable` delivers them here. */
  | { readonly mode: 'TPROXY'; readonly mark: number; readonly routeTable: number };

/** Everything (`*`), or exactly these. */
export type Included<T> = '*' | readonly T[];

/** What is to be redirected, checked and complete. Ports are TCP ports. */
export interface Redirection {
  readonly interception: Interception;
  /** Where the proxy takes what the application sends. */
  readonly proxyPort: number;
  /** Where the proxy takes what is sent to the application. */
  readonly inboundPort: number;
  /** The proxy listens here itself: never redirected. */
  readonly tunnelPort: number;
  readonly inboundPorts: Included<number>;
  /** Counts where all inbound ports are included. */
  readonly inboundPortsExcluded: readonly number[];
  /** Redirected besides what `cidrs` says. */
  readonly outboundPorts: readonly number[];
  readonly outboundPortsExcluded: readonly number[];
  readonly cidrs: Included<string>;
  /** Counts where all destinations are included. */
  readonly cidrsExcluded: readonly string[];
  /** What comes in from these is treated as if an application here had sent it. */
  readonly virtualInterfaces: readonly string[];
  /** What these users and groups send is the proxy's own and not redirected back to it. */
  readonly proxyUids: readonly number[];
  readonly proxyGids: readonly number[];
}

export type TableName = 'nat' | 'mangle';

/** A chain of ours, with its rules in order, each as iptables takes them behind `-A CHAIN`. */
export interface Chain {
  readonly name: string;
  readonly rules: readonly string[];
}

/** All of ours in one table. `jumps` lead from the built-in chains into ours: `PREROUTING -p tcp -j MESH_INBOUND`. */
export interface TableRules {
  readonly table: TableName;
  readonly chains: readonly Chain[];
  readonly jumps: readonly string[];
}
