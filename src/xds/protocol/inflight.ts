/** A response that the proxy has not acknowledged or rejected yet, and the meaning of its answer. */
import type { EncodedResource } from '../../push/index.ts';
import type { ClientState } from './client-state.ts';
import type { ResourceLists } from './selection.ts';

/** A response that has not been acknowledged. */
export interface Inflight {
  readonly nonce: string;
  /** The state of the proxy once it acknowledges. */
  next: ClientState;
  readonly changed: ResourceLists;
  /** Names that the response removed. */
  readonly removed: readonly string[];
  readonly forced: ReadonlySet<string>;
  /** Names that it reported as missing. */
  readonly missing: readonly string[];
  readonly responseRequired: boolean;
  readonly snapshot: number;
  /** Whether it only has some of the resources that are suspected to be rejected. */
  readonly ofSearch: boolean;
  /** Whether it replaced all resources of the proxy. */
  readonly full: boolean;
}

/** The meaning of the nonce and error of a request. */
export interface Answer {
  readonly kind: 'none' | 'ack' | 'nack' | 'stale';
  /** NACK: resources of the response that was answered. */
  readonly changed: readonly EncodedResource[];
  /** NACK: names that are kept back from now on. */
  readonly quarantined: readonly string[];
}

export const NO_ANSWER: Answer = { kind: 'none', changed: [], quarantined: [] };
export const ACKED: Answer = { ...NO_ANSWER, kind: 'ack' };
