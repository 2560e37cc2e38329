/**
 * Prints encoded messages as proto3 JSON (https://protobuf.dev/programming-guides/json/) with the field names of the
 * .proto files, as Envoy's own config dump does. An `Any` is opened when its message is compiled, and printed with its
 * bytes when it is not.
 */
import protobuf from 'protobufjs';
import { CtlError } from '../core/errors.ts';
import { findMessage, MAX_DEPTH, protoNameOf, specialForm } from './descriptors.ts';
import { printDuration, printTimestamp, type SecondsAndNanos } from './json-time.ts';
import { messageNameOf } from './type-urls.ts';

/** A JSON value as `JSON.parse` yields it. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

type Decoded = Readonly<Record<string, unknown>>;

/**
 * Prints the encoded message of the given full name. Throws `CtlError` `not_found` for a message that is not compiled
 * and `invalid_argument` for bytes that are no such message.
 */
export function toProtoJson(messageName: string, bytes: Uint8Array): JsonValue {
  const type = findMessage(messageName);
  if (type === undefined) throw new CtlError('not_found', `message ${messageName} is not compiled`);
  return printMessage(type, decode(type, bytes), 0);
}

function decode(type: protobuf.Type, bytes: Uint8Array): Decoded {
  try {
    return type.decode(bytes) as unknown as Decoded;
  } catch (cause) {
    throw new CtlError('invalid_argument', `the bytes are no ${type.fullName.slice(1)}`, {}, cause);
  }
}

function printMessage(type: protobuf.Type, message: Decoded, depth: number): JsonValue {
  if (depth > MAX_DEPTH) throw new CtlError('invalid_argument', `${type.fullName.slice(1)}: nested too deep`);
  switch (specialForm(type)) {
    case 'any':
      return printAny(message, depth);
    case 'duration':
      return printDuration(secondsAndNanos(message));
    case 'timestamp':
      return printTimestamp(secondsAndNanos(message));
    case 'wrapper':
      return printScalar(type.fields.value as protobuf.Field, message.value, depth);
    case 'struct':
      return printStruct(message, depth);
    case 'value':
      return printValue(message, depth);
    case 'list':
      return (message.values as Decoded[]).map((value) => printValue(value, depth + 1));
    default:
      return printFields(type, message, depth);
  }
}

function printFields(type: protobuf.Type, message: Decoded, depth: number): JsonObject {
  const out: Record<string, JsonValue> = {};
  for (const field of type.fieldsArray) {
    const value = message[field.name];
    if (!Object.hasOwn(message, field.name) || value === null || isOmitted(field, value)) continue;
    out[protoNameOf(field)] = printField(field, value, depth);
  }
  return out;
}

/** Empty lists and maps, and fields without presence that hold their default, are not printed. */
function isOmitted(field: protobuf.Field, value: unknown): boolean {
  if (field.repeated) return (value as readonly unknown[]).length === 0;
  if (field.map) return Object.keys(value as object).length === 0;
  if (field.partOf !== null || field.resolvedType instanceof protobuf.Type) return false;
  if (field.type === 'bytes') return (value as Uint8Array).length === 0;
  return field.long ? String(value) === '0' : value === field.typeDefault && !Object.is(value, -0);
}

function printField(field: protobuf.Field, value: unknown, depth: number): JsonValue {
  if (field.repeated) return (value as readonly unknown[]).map((item) => printScalar(field, item, depth));
  if (!field.map) return printScalar(field, value, depth);
  // Sorted: the order of map entries on the wire means nothing, and a stable text can be compared.
  const entries = Object.entries(value as object).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, printScalar(field, item, depth)]));
}

function printScalar(field: protobuf.Field, value: unknown, depth: number): JsonValue {
  const target = field.resolvedType;
  if (target instanceof protobuf.Type) return printMessage(target, value as Decoded, depth + 1);
  if (target instanceof protobuf.Enum) {
    if (target.fullName === '.google.protobuf.NullValue') return null;
    return target.valuesById[value as number] ?? (value as number);
  }
  if (field.type === 'bytes') return Buffer.from(value as Uint8Array).toString('base64');
  if (field.long) return String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value as boolean | number | string;
}

function printAny(message: Decoded, depth: number): JsonObject {
  const typeUrl = String(message.typeUrl);
  const bytes = message.value as Uint8Array;
  if (typeUrl === '' && bytes.length === 0) return {};
  const type = findMessage(messageNameOf(typeUrl));
  if (type === undefined) return { '@type': typeUrl, value: Buffer.from(bytes).toString('base64') };
  const content = printMessage(type, decode(type, bytes), depth + 1);
  if (specialForm(type) !== undefined) return { '@type': typeUrl, value: content };
  return { '@type': typeUrl, ...(content as JsonObject) };
}

function secondsAndNanos(message: Decoded): SecondsAndNanos {
  return { seconds: BigInt(String(message.seconds)), nanos: Number(message.nanos) };
}

function printStruct(message: Decoded, depth: number): JsonObject {
  const entries = Object.entries(message.fields as Record<string, Decoded>).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, value]) => [key, printValue(value, depth + 1)]));
}

function printValue(message: Decoded, depth: number): JsonValue {
  if (depth > MAX_DEPTH) throw new CtlError('invalid_argument', 'google.protobuf.Value: nested too deep');
  switch (message.kind) {
    case 'numberValue':
    case 'stringValue':
    case 'boolValue':
      return message[message.kind] as number | string | boolean;
    case 'structValue':
      return printStruct(message.structValue as Decoded, depth);
    case 'listValue':
      return ((message.listValue as Decoded).values as Decoded[]).map((value) => printValue(value, depth + 1));
    default:
      return null;
  }
}
