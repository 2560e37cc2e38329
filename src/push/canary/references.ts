/**
 * Which resources name others: a route a cluster, a listener its routes. Encoded resources are searched for the name,
 * which is in them as it is; a name that is part of a longer one counts too, so that a reference is never missed.
 */
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { EncodedResource } from '../types.ts';

/** A resource and its type. */
export interface Typed {
  readonly type: XdsType;
  readonly resource: EncodedResource;
}

/** A name of a type. */
export interface TypedName {
  readonly type: XdsType;
  readonly name: string;
}

/** Whether the resource may need the one that has the name. */
export function refersTo({ type, resource }: Typed, { type: other, name }: TypedName): boolean {
  if (!XDS[type].refersTo.includes(other)) return false;
  if (other === 'rds') return resource.refs.includes(name);
  // Virtual hosts are named after their route configuration, which does not name them.
  if (other === 'vhds') return name.startsWith(`${resource.name}/`);
  return Buffer.from(resource.fragment.buffer, resource.fragment.byteOffset, resource.fragment.length).includes(name);
}
