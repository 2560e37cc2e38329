/** Reads the message of a document into the JSON form that its YAML has. */
import protobuf from 'protobufjs';
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { MAX_DEPTH } from '../descriptors.ts';
import { type JsonObject, toCamelCaseJson } from '../to-json.ts';
import { LENGTH_DELIMITED, WireReader } from '../wire/index.ts';
import { documentMessage } from './messages.ts';

export interface DecodedDocument {
  readonly json: JsonObject;
  /**
   * Fields that the message does not have here, such as `rules.from.source: field 17`: a newer control plane has sent
   * them. Without them a policy would mean something else. At most {@link MAX_UNKNOWN}.
   */
  readonly unknown: readonly string[];
}

const MAX_UNKNOWN = 8;

/** The field `value` of an entry of a map. */
const MAP_VALUE = 2;

/**
 * Decodes the message of the given full name. Throws CtlError `not_found` for a message that is no document, and
 * `invalid_argument` for bytes that are not of this message.
 */
export function decodeDocument(messageName: string, bytes: Uint8Array): DecodedDocument {
  const type = documentMessage(messageName);
  if (type === undefined) throw new CtlError('not_found', `message ${messageName.slice(0, 256)} is not known`);
  const json = toCamelCaseJson(type, bytes);
  const unknown: string[] = [];
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  findUnknown(type, new WireReader(buffer), [], unknown);
  // Documents are messages with fields, which are objects.
  return { json: isObject(json) ? (json as JsonObject) : {}, unknown };
}

function findUnknown(type: protobuf.Type, reader: WireReader, path: readonly string[], found: string[]): void {
  // The decoder has accepted the bytes up to its own limit.
  if (type.fullName.startsWith('.google.protobuf.') || path.length > MAX_DEPTH) return;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (found.length >= MAX_UNKNOWN) return;
    const known = type.fieldsById[field.number];
    if (known === undefined) {
      found.push([path.join('.'), `field ${field.number}`].filter((part) => part !== '').join(': '));
      continue;
    }
    const target = known.resolvedType;
    if (!(target instanceof protobuf.Type) || field.wireType !== LENGTH_DELIMITED) continue;
    const within = [...path, known.name];
    const content = reader.inside(field);
    if (!known.map) findUnknown(target, content, within, found);
    else
      for (let entry = content.next(); entry !== undefined; entry = content.next())
        if (entry.number === MAP_VALUE) findUnknown(target, content.inside(entry), within, found);
  }
}
