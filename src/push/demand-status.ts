/** What a sidecar on demand has asked for and was given, in numbers. */
import type { OnDemand } from '../generate/index.ts';

/** Counts of one sidecar on demand. */
export interface DemandStatus {
  readonly mode: OnDemand;
  /**
   * Why it gets everything until it reconnects: it asked for more hosts than a proxy on demand may have, or it had
   * everything before it was to ask.
   */
  readonly whole?: 'limit' | 'before';
  /** Host names that it asked for, of which one virtual host may have several, and clusters of TCP connections. */
  readonly asked: number;
  /** Those of them for which the mesh has no virtual host. */
  readonly unknown: number;
  /** Virtual hosts that it got because proxies with the same configuration asked for them. */
  readonly learned: number;
  /** Virtual hosts that its Sidecar names. */
  readonly named: number;
  /** Virtual hosts that it had before it reconnected. */
  readonly kept: number;
}
