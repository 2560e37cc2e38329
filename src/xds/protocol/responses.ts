/** Responses as the protocol machines make them; `src/xds/server` writes them as frames. */
import type { EncodedResource } from '../../push/index.ts';

/** Only `version` and `nonce` differ from stream to stream; `body` is shared. */
export interface ResponseMessage {
  readonly typeUrl: string;
  /** SotW: version_info; Delta: system_version_info. */
  readonly version: string;
  readonly nonce: string;
  /** Delta only. */
  readonly removed: readonly string[];
  /** Encoded `resources` fields of the protocol's message. */
  readonly body: readonly Uint8Array[];
}

/** The variants of the protocol: state of the world, and incremental. */
export type Mode = 'sotw' | 'delta';

type Field = (resource: EncodedResource) => Uint8Array;

const deltaField: Field = ({ fragment }) => fragment;

/** A DiscoveryResponse only contains the Any: the same bytes without the enclosing Resource. */
const sotwField: Field = ({ fragment, anyOffset }) => fragment.subarray(anyOffset);

/** How a resource is encoded as a field of a DiscoveryResponse or DeltaDiscoveryResponse. */
export function fieldOf(mode: Mode): Field {
  return mode === 'delta' ? deltaField : sotwField;
}
