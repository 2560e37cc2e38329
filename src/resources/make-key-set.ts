/**
 * The resource that holds a fetched key set. Apart from `key-sets.ts`, which generation reads too: making one needs a
 * hash.
 */
import { fingerprintOf } from './fingerprint.ts';
import { keySetName } from './key-sets.ts';
import type { Resource, ResourceMeta } from './types.ts';

/** Id of the source that key sets are told by. */
export const KEY_SET_SOURCE = 'jwks';

/** The key set of a reference, as it was fetched: `jwks` is its JSON text. */
export function makeKeySet(reference: string, jwks: string): Resource<'JsonWebKeySet'> {
  const meta: ResourceMeta = { name: keySetName(reference), namespace: '', labels: {}, annotations: {} };
  const content = { jwks };
  const fingerprint = fingerprintOf('JsonWebKeySet', meta, content);
  return { kind: 'JsonWebKeySet', meta, content, origin: { source: KEY_SET_SOURCE }, fingerprint };
}
