/** The contract of the servers that the forwarder queries. */
import type { Request, UpstreamResponse } from './request.ts';

export interface Upstream {
  /** For logs: `udp://192.0.2.1:53`. */
  readonly name: string;
  /** Rejects with CtlError when there is no response in time. */
  exchange(request: Request, timeoutMs: number): Promise<UpstreamResponse>;
}

/** The servers that are currently in force. */
export interface UpstreamSet {
  /** The servers in the order in which they are asked. */
  readonly upstreams: readonly Upstream[];
  /** How many times all of them are asked. */
  readonly attempts: number;
  /** How long to wait for one response, ms. */
  readonly timeoutMs: number;
}

/** The source of the servers that resolve names outside the mesh. */
export interface UpstreamSource {
  /** Throws CtlError when there is no server. */
  current(): UpstreamSet;
  /** Whether a query with this id from this local UDP port is one of those sent upstream. */
  sent(port: number, id: number): boolean;
  close(): void;
}
