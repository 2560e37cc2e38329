/**
 * Makes the resource with a fetched key set. It is separate from `key-sets.ts`, which generation imports too, because
 * it needs a hash.
 */

import { keySetName } from './key-sets.ts';
import type { Resource, ResourceMeta } from './kinds/types.ts';
import { fingerprintOf } from './parsing/fingerprint.ts';

/** Id of the source of fetched key sets. */
export const KEY_SET_SOURCE = 'jwks';

/**
 * The resource for the fetched key set of a reference.
 * @param jwks its JSON text
 */
export function makeKeySet(reference: string, jwks: string): Resource<'JsonWebKeySet'> {
  const meta: ResourceMeta = { name: keySetName(reference), namespace: '', labels: {}, annotations: {} };
  const content = { jwks };
  const fingerprint = fingerprintOf('JsonWebKeySet', meta, content);
  return { kind: 'JsonWebKeySet', meta, content, origin: { source: KEY_SET_SOURCE }, fingerprint };
}
