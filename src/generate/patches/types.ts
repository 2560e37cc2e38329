/** A patch of an EnvoyFilter as it is applied. */
import { CtlError } from '../../core/errors.ts';
import type { EnvoyConfigMatch, EnvoyConfigPatch } from '../../resources/index.ts';

export type ApplyTo = EnvoyConfigPatch['applyTo'];

export type FilterClass = Exclude<NonNullable<EnvoyConfigPatch['patch']['filterClass']>, 'UNSPECIFIED'>;

export interface Patch {
  readonly applyTo: ApplyTo;
  /** For messages: `EnvoyFilter/shop/lua: spec.configPatches[0]`. */
  readonly label: string;
  readonly operation: EnvoyConfigPatch['patch']['operation'];
  readonly match: EnvoyConfigMatch;
  /** For an addition; absent: at the end. */
  readonly filterClass?: FilterClass;
  /** The name in the value; '' if it has none. */
  readonly name: string;
  /** The encoded value; empty when the patch has none. */
  readonly value: Uint8Array;
}

/** Maximum number of patches that a message lists. */
const MAX_LABELS = 3;

/** Names the patches that a message is about. */
export function labelsOf(patches: readonly Patch[]): string {
  const labels = patches.slice(0, MAX_LABELS).map(({ label }) => label);
  const more = patches.length - labels.length;
  return more > 0 ? `${labels.join(', ')} and ${more} more` : labels.join(', ');
}

/** The error for patches that do not fit their target. */
export function misfit(label: string, message: string): CtlError {
  return new CtlError('invalid_argument', `${label}: ${message}`);
}

/** The parts of a proxy's configuration, as matches name them. */
export const PATCH_CONTEXTS = {
  outbound: 'SIDECAR_OUTBOUND',
  inbound: 'SIDECAR_INBOUND',
  gateway: 'GATEWAY',
} as const;
export type PatchContext = (typeof PATCH_CONTEXTS)[keyof typeof PATCH_CONTEXTS];
