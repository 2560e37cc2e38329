/** What the bench of the policy component tells the processes of its callers and of the bare server. */

/** Mutual TLS, PEM. Absent: plain text. */
export interface Tls {
  readonly root: string;
  readonly chain: string;
  readonly key: string;
}

export interface LoadCommand {
  readonly port: number;
  readonly tls: Tls | undefined;
  readonly seconds: number;
  /** Checks a second; undefined: as many as the server decides, with `inFlight` of them waiting at a time. */
  readonly rate: number | undefined;
  readonly inFlight: number;
  readonly connections: number;
}

export interface LoadResult {
  readonly perSecond: number;
  /** Checks without a decision, and decisions that are not those that the rules define. */
  readonly wrong: number;
  /** Milliseconds from the request to its decision. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export interface BareCommand {
  readonly tls: Tls | undefined;
}

export interface BareResult {
  readonly port: number;
  readonly pid: number;
}
