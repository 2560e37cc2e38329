/** What the bench of the DNS server tells its two processes, and what they answer. */

/** To the server's process. */
export type ServerCommand =
  /** Serves a table of so many names on a free port. */
  | { readonly op: 'serve'; readonly names: number }
  /** Replaces the table by one with other addresses, and again every so many ms; 0: not any more. */
  | { readonly op: 'replace'; readonly everyMs: number };

export interface Served {
  readonly port: number;
  /** Memory of the table, of JavaScript's heap and of buffers, MiB. */
  readonly tableMiB: number;
}

/** To the process of the clients. */
export interface LoadCommand {
  readonly port: number;
  readonly names: number;
  readonly seconds: number;
  /** Queries a second; undefined: as many as the server answers, with `inFlight` of them waiting at a time. */
  readonly rate: number | undefined;
  readonly inFlight: number;
}

export interface LoadResult {
  readonly perSecond: number;
  /** Queries without a response, and wrong responses. */
  readonly lost: number;
  readonly wrong: number;
  /** Milliseconds from the query to its response. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** The name of a service of the bench. */
export const nameOf = (index: number): string => `service-${index}.namespace-${index % 50}.svc.cluster.local`;
