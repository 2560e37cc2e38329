/** A unit of publication: changed resources and changed configuration of the mesh. */
import type { ResourceChange } from './kinds/types.ts';
import type { MeshConfig, MeshNetworks } from './mesh-config.ts';

/** Host names of gateways of networks → their IP addresses, sorted; none: the name has no address. */
export type ResolvedHosts = ReadonlyMap<string, readonly string[]>;

export interface MeshUpdate {
  /** Several changes of one key apply in order. */
  readonly changes: readonly ResourceChange[];
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
  readonly resolvedHosts?: ResolvedHosts;
  /** Event time of the earliest event behind it, monotonic ms; {@link NO_EVENT} if there is none. */
  readonly eventTime: number;
}

/** Later than every event. */
export const NO_EVENT = Number.POSITIVE_INFINITY;

/** Merges two updates: takes the later values and the earlier time. */
export function mergedUpdate(first: MeshUpdate | undefined, then: MeshUpdate): MeshUpdate {
  if (first === undefined) return then;
  const changes = [...first.changes, ...then.changes];
  return { ...first, ...then, changes, eventTime: Math.min(first.eventTime, then.eventTime) };
}
