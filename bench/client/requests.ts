/** Discovery requests as chunks: a few bytes for each proxy, and lists of names that proxies share. */
import {
  encodeFields,
  type FieldToWrite,
  MAX_FIELD_HEAD_BYTES,
  writeDelimitedHead,
} from '../../src/protobuf/wire/index.ts';
import type { Resource } from './bodies.ts';
import type { ProxyType } from './messages.ts';
import { TYPE_URL } from './response-reader.ts';

export function encodeNames(field: number, names: readonly string[]): Buffer {
  return encodeFields(names.map((text) => [field, text]));
}

/** Entries of a `map<string, string>` from name to version. */
export function encodeVersions(field: number, resources: Iterable<Resource>): Buffer {
  const entries: Buffer[] = [];
  for (const { name, version } of resources) {
    const fields: FieldToWrite[] = [
      [1, name],
      [2, version],
    ];
    entries.push(nested(field, encodeFields(fields)));
  }
  return Buffer.concat(entries);
}

/** `content` as field `field`, a nested message. */
function nested(field: number, content: Uint8Array): Buffer {
  return encodeFields([[field, content]]);
}

/** A message that is given in chunks, as field `field` of another one. */
export function asField(field: number, chunks: readonly Buffer[]): readonly Buffer[] {
  if (chunks.length === 0) return [];
  const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const head = Buffer.allocUnsafe(MAX_FIELD_HEAD_BYTES);
  return [head.subarray(0, writeDelimitedHead(head, 0, field, length)), ...chunks];
}

/** A DiscoveryRequest after its node (2) and before its names (3). */
export function sotwHead(type: ProxyType, version: string, nonce: string): Buffer {
  const fields: FieldToWrite[] = [
    [1, version],
    [4, TYPE_URL[type]],
    [5, nonce],
  ];
  return encodeFields(fields.filter(([, text]) => text !== ''));
}

/** A DeltaDiscoveryRequest after its node (1) and before its names (3, 4) and versions (5). */
export function deltaHead(type: ProxyType, nonce: string): Buffer {
  const fields: FieldToWrite[] = [
    [2, TYPE_URL[type]],
    [6, nonce],
  ];
  return encodeFields(fields.filter(([, text]) => text !== ''));
}
