/** What the bench of the DNS server tells the process of its clients, and what that answers. */

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
