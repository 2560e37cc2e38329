/**
 * Messages between the bench and the process of simulated proxies: a closed union of plain data over Node's IPC.
 */
import type { Content, Mode } from '../options.ts';
import type { Uses } from './uses.ts';

export type ProxyType = 'cds' | 'eds' | 'lds' | 'rds' | 'vhds';

/**
 * Shows that a change has arrived. `changed`: the resource differs from what the proxy had when the watch began;
 * `received`: a response of the type holds it (an empty name: any response of the type).
 */
export interface Predicate {
  readonly type: ProxyType;
  readonly state: 'changed' | 'present' | 'gone' | 'received';
  readonly name: string;
}

/** Certificates of proxies, PEM. */
export interface ProxyCertificates {
  /** The roots that the proxies trust. */
  readonly ca: string;
  /** By namespace. */
  readonly identities: Readonly<Record<string, { readonly certificate: string; readonly key: string }>>;
}

export interface OpenCommand {
  readonly op: 'open';
  readonly port: number;
  readonly mode: Mode;
  /** Whether the proxies say that their agent has certificates. */
  readonly content: Content;
  readonly count: number;
  /** Proxy i is in namespace i modulo their number. */
  readonly namespaces: readonly string[];
  /** The loopback address that the proxies of each namespace connect from; by default 127.0.0.1. */
  readonly addresses?: readonly string[];
  /** This many proxies, the last ones, have small windows and can be made slow later. */
  readonly slow: number;
  /** Connect over TLS with these; undefined: plain text. */
  readonly certificates?: ProxyCertificates;
  /** The proxies accept compressed messages. */
  readonly gzip?: boolean;
  /** The proxies are on demand, and call these services as soon as they are ready; undefined: they get everything. */
  readonly uses?: Uses;
}

export type Command =
  | OpenCommand
  /** Answered when every proxy has all that it subscribes to. */
  | { readonly op: 'synced'; readonly timeoutMs: number }
  /** Begins a watch. Answered when the current state of the proxies was recorded: the change can be made then. */
  | {
      readonly op: 'watch';
      readonly watch: number;
      readonly predicates: readonly Predicate[];
      readonly proxies?: readonly number[];
    }
  /** Ends a watch: answered when it has arrived everywhere, or at the timeout. */
  | { readonly op: 'arrived'; readonly watch: number; readonly timeoutMs: number }
  | { readonly op: 'totals' }
  /** Closes all connections without notice. The proxies keep their configuration. */
  | { readonly op: 'drop' }
  /** Connects all unconnected proxies; with `retry`, until it succeeds and after each break. */
  | { readonly op: 'connect'; readonly retry: boolean }
  /** From now on the slow proxies read at this rate; 0: as fast as they can. */
  | { readonly op: 'crawl'; readonly bytesPerSecond: number }
  /** Compares every proxy with a new one of its namespace; on demand, a few of them with one that calls the same. */
  | { readonly op: 'verify'; readonly timeoutMs: number }
  /** Plain TCP connections that count bytes, so many to each in a round. */
  | { readonly op: 'rawOpen'; readonly port: number; readonly count: number; readonly bytes: number }
  /** Answered when each connection has received the bytes of a round. Then the next round begins. */
  | { readonly op: 'rawArrived'; readonly timeoutMs: number };

/**
 * Monotonic ms at which it had arrived at each proxy, 0 where it has not; proxies that were not watched are left out.
 */
export interface Arrivals {
  readonly at: readonly number[];
  readonly missing: number;
}

export interface Totals {
  readonly messages: number;
  readonly bytes: number;
  /** Resources received, removals included. */
  readonly resources: number;
  readonly messagesByType: Readonly<Record<ProxyType, number>>;
  readonly open: number;
  /** Streams that ended without a command. */
  readonly broken: number;
  /** CPU of the process of proxies, since its start. */
  readonly cpuSeconds: number;
}

/** How much of what arrived is for connections with mutual TLS: counted in all versions of all resources. */
export interface ContentSecurity {
  /** Clusters that learn their endpoints by EDS. */
  readonly clusters: number;
  /** Those with a transport socket for endpoints that accept mutual TLS. */
  readonly secured: number;
  readonly endpoints: number;
  /** Those that accept mutual TLS. */
  readonly ready: number;
}

export interface Verdict {
  /** Proxies that were compared. */
  readonly compared: number;
  /** `proxy 7 differs in cds: …`, at most a few. */
  readonly differences: readonly string[];
  readonly security: ContentSecurity;
}

export interface Answers {
  readonly open: undefined;
  readonly synced: Arrivals;
  readonly watch: undefined;
  readonly arrived: Arrivals;
  readonly totals: Totals;
  readonly drop: undefined;
  readonly connect: undefined;
  readonly crawl: undefined;
  readonly verify: Verdict;
  readonly rawOpen: undefined;
  readonly rawArrived: Arrivals;
}

export interface Question {
  readonly call: number;
  readonly command: Command;
}

export interface Reply {
  readonly call: number;
  readonly answer?: unknown;
  readonly error?: string;
}
