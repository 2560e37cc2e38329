/**
 * Wraps an encoded Envoy message into the field that both protocols send. Written by hand: it runs once per resource on
 * the main thread, and this layout lets one buffer serve SotW and Delta:
 *
 *   DeltaDiscoveryResponse.resources (2) = Resource {
 *     version (1), name (3),
 *     resource (2) = Any { type_url (1), value (2) }   ◀─ from here on: DiscoveryResponse.resources (2)
 *   }
 */
import { hash } from 'node:crypto';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import { delimitedLength, VarintDecoder, writeDelimitedHead } from '../../protobuf/wire/index.ts';
import type { EncodedResource } from '../types.ts';

/**
 * 96 bits: short, because a version is sent with every resource and is reported again at every reconnect. Versions are
 * compared only with others of the same name, so two never collide by chance, and constructing a collision is costly.
 */
const VERSION_CHARACTERS = 16;

/** Version of a resource: the hash of its message, which is the same after a restart and in another replica. */
export function contentVersion(message: Uint8Array): string {
  return hash('sha256', message, 'base64url').slice(0, VERSION_CHARACTERS);
}

/** Builds the shared form of one resource. Copies `message`, so that the buffer it is part of can be freed. */
export function encodeResource(
  type: XdsType,
  name: string,
  version: string,
  message: Uint8Array,
  refs: readonly string[],
): EncodedResource {
  const typeUrl = XDS[type].url;
  const nameLength = Buffer.byteLength(name);
  const anyLength = delimitedLength(1, typeUrl.length) + delimitedLength(2, message.length);
  const resourceLength =
    delimitedLength(1, version.length) + delimitedLength(3, nameLength) + delimitedLength(2, anyLength);
  // Not from the shared pool: a small resource must not keep 8 KiB of its neighbours alive.
  const fragment = Buffer.allocUnsafeSlow(delimitedLength(2, resourceLength));
  let at = writeDelimitedHead(fragment, 0, 2, resourceLength);
  at = writeDelimitedHead(fragment, at, 1, version.length);
  at += fragment.write(version, at, 'latin1');
  at = writeDelimitedHead(fragment, at, 3, nameLength);
  at += fragment.write(name, at, 'utf8');
  const anyOffset = at;
  at = writeDelimitedHead(fragment, at, 2, anyLength);
  at = writeDelimitedHead(fragment, at, 1, typeUrl.length);
  at += fragment.write(typeUrl, at, 'latin1');
  at = writeDelimitedHead(fragment, at, 2, message.length);
  fragment.set(message, at);
  return { name, version, fragment, anyOffset, refs };
}

const varint = new VarintDecoder();

/** The message inside a resource (the Any's value), as a view on the shared buffer. */
export function resourceMessage({ fragment, anyOffset }: EncodedResource): Uint8Array {
  /** The offset of the content of the field at `start`; its length is left in `varint`. */
  const content = (start: number): number => varint.read(fragment, start + 1, fragment.length);
  const any = content(anyOffset);
  const typeUrl = content(any);
  const value = content(typeUrl + varint.value);
  return fragment.subarray(value, value + varint.value);
}
