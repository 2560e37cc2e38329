/** A patch of an EnvoyFilter as it is applied. */
import type { EnvoyConfigMatch, EnvoyConfigPatch } from '../../resources/index.ts';

export interface Patch {
  /** For messages: `EnvoyFilter/shop/lua: spec.configPatches[0]`. */
  readonly label: string;
  readonly operation: EnvoyConfigPatch['patch']['operation'];
  readonly match: EnvoyConfigMatch;
  /** The encoded value; empty where there is none. */
  readonly value: Uint8Array;
}

/** Patches of one target in the order in which they apply. */
export type PatchLookup = (applyTo: EnvoyConfigPatch['applyTo']) => readonly Patch[];

/** The parts of a proxy's configuration, as matches name them. */
export const PATCH_CONTEXTS = {
  outbound: 'SIDECAR_OUTBOUND',
  inbound: 'SIDECAR_INBOUND',
  gateway: 'GATEWAY',
} as const;
export type PatchContext = (typeof PATCH_CONTEXTS)[keyof typeof PATCH_CONTEXTS];
