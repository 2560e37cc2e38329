/** What the bench of the DNS server tells the processes of its clients and of its agents, and what these answer. */

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

export type AgentsCommand =
  /** Connects agents. */
  | {
      readonly op: 'open';
      readonly port: number;
      readonly count: number;
      /** Whether they merge pieces of the table. */
      readonly pieces: boolean;
      /** Answered when every agent has received so many responses. */
      readonly responses: number;
    }
  | { readonly op: 'received'; readonly responses: number };

export interface AgentsResult {
  /** Bytes of all responses so far. */
  readonly bytes: number;
  /** Monotonic ms of the last response of each agent. */
  readonly at: readonly number[];
}
