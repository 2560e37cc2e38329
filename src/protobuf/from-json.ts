/**
 * Reads proto3 JSON (https://protobuf.dev/programming-guides/json/) into encoded messages. Stricter than protobufjs: an
 * unknown field, a value of the wrong type and two members of one oneof are errors that name the field.
 */
import protobuf from 'protobufjs';
import { CtlError } from '../core/errors.ts';
import { isObject } from '../core/objects.ts';
import { findField, findMessage, MAX_DEPTH, protoNameOf, specialForm } from './descriptors.ts';
import { readScalar, toLong } from './json-scalars.ts';
import { parseDuration, parseTimestamp, type SecondsAndNanos } from './json-time.ts';
import { messageNameOf } from './type-urls.ts';

type Message = Record<string, unknown>;
type JsonRecord = Readonly<Record<string, unknown>>;

/**
 * Encodes the JSON form of the message of the given full name. Field names may be as in the .proto file or in camel
 * case. Throws `CtlError` `invalid_argument`; its location's `field` is the path of the wrong value.
 */
export function fromProtoJson(messageName: string, json: unknown): Uint8Array {
  const type = findMessage(messageName);
  if (type === undefined) throw new CtlError('not_found', `message ${messageName} is not compiled`);
  return encode(type, readMessage(type, json, '', 0));
}

/** The same for a message of other descriptors. */
export function fromJsonOf(type: protobuf.Type, json: unknown): Uint8Array {
  return encode(type, readMessage(type, json, '', 0));
}

function encode(type: protobuf.Type, message: Message): Uint8Array {
  return type.encode(message).finish();
}

function wrong(path: string, message: string): CtlError {
  return new CtlError('invalid_argument', message, { field: path });
}

function member(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function record(json: unknown, path: string, what: string): JsonRecord {
  if (isObject(json)) return json as JsonRecord;
  throw wrong(path, `expected ${what} (an object)`);
}

function readMessage(type: protobuf.Type, json: unknown, path: string, depth: number): Message {
  if (depth > MAX_DEPTH) throw wrong(path, 'nested too deep');
  switch (specialForm(type)) {
    case 'any':
      return readAny(json, path, depth);
    case 'duration':
      return readTime(json, path, parseDuration, 'a duration such as "1.5s"');
    case 'timestamp':
      return readTime(json, path, parseTimestamp, 'a time such as "2024-01-02T03:04:05Z"');
    case 'wrapper':
      return { value: readScalar(type.fields.value as protobuf.Field, json, path) };
    case 'struct':
      return readStruct(json, path, depth);
    case 'value':
      return readValue(json, path, depth);
    case 'list':
      return readList(json, path, depth);
    default:
      return readFields(type, json, path, depth);
  }
}

function readFields(type: protobuf.Type, json: unknown, path: string, depth: number): Message {
  const message: Message = {};
  for (const [name, value] of Object.entries(record(json, path, `a ${type.name}`))) {
    const at = member(path, name);
    const field = findField(type, name);
    if (field === undefined) throw wrong(at, `unknown field of ${type.fullName.slice(1)}`);
    if (value === null && !acceptsNull(field)) continue;
    if (message[field.name] !== undefined) throw wrong(at, 'the field is set twice');
    const rival = field.partOf?.oneof.find((other) => message[other] !== undefined);
    if (rival !== undefined) throw wrong(at, `cannot be set together with ${protoNameOf(type.fields[rival] ?? field)}`);
    message[field.name] = readField(field, value, at, depth);
  }
  return message;
}

/** Null means "not set", except for messages that have a null value. */
function acceptsNull(field: protobuf.Field): boolean {
  return !field.repeated && !field.map && field.resolvedType?.fullName === '.google.protobuf.Value';
}

function readField(field: protobuf.Field, json: unknown, path: string, depth: number): unknown {
  if (field.repeated) {
    if (!Array.isArray(json)) throw wrong(path, 'expected a list');
    return json.map((item, index) => readSingle(field, item, `${path}[${index}]`, depth));
  }
  if (!field.map) return readSingle(field, json, path, depth);
  const entries = Object.entries(record(json, path, 'a map')).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, readSingle(field, item, `${path}["${key}"]`, depth)]));
}

function readSingle(field: protobuf.Field, json: unknown, path: string, depth: number): unknown {
  const target = field.resolvedType;
  if (target instanceof protobuf.Type) return readMessage(target, json, path, depth + 1);
  return readScalar(field, json, path);
}

function readAny(json: unknown, path: string, depth: number): Message {
  const { '@type': typeUrl, ...content } = record(json, path, 'an Any');
  if (typeUrl === undefined && Object.keys(content).length === 0) return {};
  if (typeof typeUrl !== 'string') throw wrong(member(path, '@type'), 'expected the type URL of the message');
  const type = findMessage(messageNameOf(typeUrl));
  if (type === undefined) throw wrong(member(path, '@type'), `message ${messageNameOf(typeUrl)} is not known`);
  if (specialForm(type) === undefined) {
    return { typeUrl, value: encode(type, readMessage(type, content, path, depth + 1)) };
  }
  const unknown = Object.keys(content).find((name) => name !== 'value');
  if (unknown !== undefined) throw wrong(member(path, unknown), 'unknown field beside "value"');
  return { typeUrl, value: encode(type, readMessage(type, content.value, member(path, 'value'), depth + 1)) };
}

function readTime(
  json: unknown,
  path: string,
  parse: (text: string) => SecondsAndNanos | undefined,
  expected: string,
): Message {
  const time = typeof json === 'string' ? parse(json) : undefined;
  if (time === undefined) throw wrong(path, `expected ${expected}`);
  return { seconds: toLong(time.seconds), nanos: time.nanos };
}

/**
 * The additional nesting of a Struct's values in the wire format, which has map entries between a Struct and its
 * values.
 */
const STRUCT_LEVELS = 3;
const LIST_LEVELS = 2;

function readStruct(json: unknown, path: string, depth: number): Message {
  const entries = Object.entries(record(json, path, 'a Struct')).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    fields: Object.fromEntries(
      entries.map(([key, value]) => [key, readValue(value, member(path, key), depth + STRUCT_LEVELS)]),
    ),
  };
}

function readList(json: unknown, path: string, depth: number): Message {
  if (!Array.isArray(json)) throw wrong(path, 'expected a list');
  return { values: json.map((value, index) => readValue(value, `${path}[${index}]`, depth + LIST_LEVELS)) };
}

function readValue(json: unknown, path: string, depth: number): Message {
  if (depth > MAX_DEPTH) throw wrong(path, 'nested too deep');
  if (json === null) return { nullValue: 0 };
  if (typeof json === 'number') return { numberValue: json };
  if (typeof json === 'string') return { stringValue: json };
  if (typeof json === 'boolean') return { boolValue: json };
  if (Array.isArray(json)) return { listValue: readList(json, path, depth) };
  return { structValue: readStruct(json, path, depth) };
}
