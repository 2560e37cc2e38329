/**
 * Wraps an encoded Envoy message into the field that both protocols send. Written by hand, because it is done once per
 * resource on the main thread and the layout is what makes one buffer serve SotW and Delta:
 *
 *   DeltaDiscoveryResponse.resources (2) = Resource { version (1), name (3), resource (2) = Any { type_url (1), value (2) } }
 *                                                                          └── from here on: DiscoveryResponse.resources (2)
 */
import { hash } from 'node:crypto';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { EncodedResource } from '../types.ts';

/**
 * 96 bits: it goes with every resource, and back with every reconnect. Versions are only compared with others of the
 * same name, so that chance never makes two alike; and whoever may write a resource has no short work to make two of
 * its contents alike on purpose.
 */
const VERSION_CHARACTERS = 16;

/** Version of a resource: the hash of its message, so that a restart, or another replica, comes to the same. */
export function contentVersion(message: Uint8Array): string {
  return hash('sha256', message, 'base64url').slice(0, VERSION_CHARACTERS);
}

/** Tag bytes: field number << 3 | wire type 2 (length-delimited). */
const TAG_1 = 0x0a;
const TAG_2 = 0x12;
const TAG_3 = 0x1a;

function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 128)) length++;
  return length;
}

function fieldLength(bytes: number): number {
  return 1 + varintLength(bytes) + bytes;
}

/** Writes tag and length; returns the new offset. */
function writeHead(target: Uint8Array, offset: number, tag: number, length: number): number {
  let at = offset;
  target[at++] = tag;
  let rest = length;
  while (rest > 0x7f) {
    target[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[at++] = rest;
  return at;
}

/** Builds the shared form of one resource; copies `message`, so that the buffer it came in can go. */
export function encodeResource(
  type: XdsType,
  name: string,
  version: string,
  message: Uint8Array,
  refs: readonly string[],
): EncodedResource {
  const typeUrl = XDS[type].url;
  const nameLength = Buffer.byteLength(name);
  const anyLength = fieldLength(typeUrl.length) + fieldLength(message.length);
  const resourceLength = fieldLength(version.length) + fieldLength(nameLength) + fieldLength(anyLength);
  // Not from the shared pool: a small resource must not keep 8 KiB of its neighbours alive.
  const fragment = Buffer.allocUnsafeSlow(fieldLength(resourceLength));
  let at = writeHead(fragment, 0, TAG_2, resourceLength);
  at = writeHead(fragment, at, TAG_1, version.length);
  at += fragment.write(version, at, 'latin1');
  at = writeHead(fragment, at, TAG_3, nameLength);
  at += fragment.write(name, at, 'utf8');
  const anyOffset = at;
  at = writeHead(fragment, at, TAG_2, anyLength);
  at = writeHead(fragment, at, TAG_1, typeUrl.length);
  at += fragment.write(typeUrl, at, 'latin1');
  at = writeHead(fragment, at, TAG_2, message.length);
  fragment.set(message, at);
  return { name, version, fragment, anyOffset, refs };
}

/** The message inside a resource (the Any's value), as a view on the shared buffer. */
export function messageOf(resource: EncodedResource): Uint8Array {
  const { fragment } = resource;
  let at = resource.anyOffset + 1;
  const readLength = (): number => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = fragment[at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  };
  readLength();
  at += 1;
  const typeUrlLength = readLength();
  at += typeUrlLength + 1;
  const length = readLength();
  return fragment.subarray(at, at + length);
}
