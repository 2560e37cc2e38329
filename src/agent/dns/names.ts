/** The name table that the control plane sends (proto/istio/networking/nds/v1/nds.proto). */
import { CtlError } from '../../core/errors.ts';
import type { NameEntry } from '../../dns/index.ts';
import { istio } from '../../protobuf/agent/index.ts';

/**
 * The names of a response. Throws CtlError invalid_argument for a response without exactly one readable table.
 *
 * @param resources encoded `NameTable` messages
 */
export function readNames(resources: readonly Uint8Array[]): readonly (readonly [name: string, entry: NameEntry])[] {
  const [resource, ...others] = resources;
  if (resource === undefined || others.length > 0)
    throw new CtlError('invalid_argument', `expected one name table, got ${resources.length}`);
  try {
    return Object.entries(istio.networking.nds.v1.NameTable.decode(resource).table);
  } catch (error) {
    throw new CtlError('invalid_argument', 'the name table is not readable', {}, error);
  }
}
