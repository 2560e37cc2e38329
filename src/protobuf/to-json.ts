/**
 * Prints encoded messages as proto3 JSON (https://protobuf.dev/programming-guides/json/) with the field names of the
 * .proto files, as Envoy's own config dump does. An `Any` is printed with its content when its message is compiled,
 * else with its bytes.
 */
import protobuf from 'protobufjs';
import { CtlError } from '../core/errors.ts';
import { isSecretName, REDACTED } from '../core/redact.ts';
import { findMessage, jsonNameOf, MAX_DEPTH, protoNameOf, specialForm } from './descriptors.ts';
import { printDuration, printTimestamp, type SecondsAndNanos } from './json-time.ts';
import { fieldRedaction, isLocation, isOpaque, namedRedaction, type Redaction } from './sensitive.ts';
import { messageNameOf } from './type-urls.ts';

/** A JSON value as `JSON.parse` yields it. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

type Decoded = Readonly<Record<string, unknown>>;

/** A printed value; lists may be lazy. */
type Printed = null | boolean | number | string | Iterable<Printed> | { readonly [key: string]: Printed };

/** How a message is printed, and its nesting depth. */
interface Style {
  readonly depth: number;
  /** For display: secrets are replaced, and long lists of messages are generated while they are read. */
  readonly shown: boolean;
  /** Fields have the names of proto3 JSON (camel case), and 64-bit integers are numbers where these are exact. */
  readonly camelCase?: boolean;
  /** How strings are shown inside a field that holds secrets. */
  readonly redaction?: Redaction | undefined;
}

/**
 * Prints the encoded message of the given full name. Throws `CtlError` `not_found` for a message that is not compiled
 * and `invalid_argument` for bytes that are not of this message.
 */
export function toProtoJson(messageName: string, bytes: Uint8Array): JsonValue {
  // Lists are arrays when nothing is lazy.
  return print(messageName, bytes, { depth: 0, shown: false }) as JsonValue;
}

/**
 * The same for display: without secrets (`sensitive.ts`), and with long lists of messages as generators, which produce
 * their items while they are read and throw as {@link toProtoJson} does. The bytes of a message that is not compiled
 * are not shown, because they may contain anything.
 */
export function toShownJson(messageName: string, bytes: Uint8Array): unknown {
  return print(messageName, bytes, { depth: 0, shown: true });
}

/** The same as {@link toProtoJson} for a message of other descriptors, with fields in camel case, as YAML has them. */
export function toCamelCaseJson(type: protobuf.Type, bytes: Uint8Array): JsonValue {
  return printMessage(type, decode(type, bytes), { depth: 0, shown: false, camelCase: true }) as JsonValue;
}

function print(messageName: string, bytes: Uint8Array, style: Style): Printed {
  const type = findMessage(messageName);
  if (type === undefined) throw new CtlError('not_found', `message ${messageName} is not compiled`);
  return printMessage(type, decode(type, bytes), style);
}

function decode(type: protobuf.Type, bytes: Uint8Array): Decoded {
  try {
    return type.decode(bytes) as unknown as Decoded;
  } catch (cause) {
    throw new CtlError('invalid_argument', `the bytes are not a valid ${type.fullName.slice(1)}`, {}, cause);
  }
}

function deeper(style: Style): Style {
  return { ...style, depth: style.depth + 1 };
}

function printMessage(type: protobuf.Type, message: Decoded, style: Style): Printed {
  if (style.depth > MAX_DEPTH) throw new CtlError('invalid_argument', `${type.fullName.slice(1)}: nested too deep`);
  switch (specialForm(type)) {
    case 'any':
      return printAny(message, style);
    case 'duration':
      return printDuration(secondsAndNanos(message));
    case 'timestamp':
      return printTimestamp(secondsAndNanos(message));
    case 'wrapper':
      return printScalar(type.fields.value as protobuf.Field, message.value, style);
    case 'struct':
      return printStruct(message, style);
    case 'value':
      return printValue(message, style);
    case 'list':
      return (message.values as Decoded[]).map((value) => printValue(value, deeper(style)));
    default:
      return printFields(type, message, style);
  }
}

function printFields(type: protobuf.Type, message: Decoded, style: Style): { readonly [key: string]: Printed } {
  const out: Record<string, Printed> = {};
  const named = style.shown ? namedRedaction(type, (field) => message[field.name]) : undefined;
  for (const field of type.fieldsArray) {
    const value = message[field.name];
    if (!Object.hasOwn(message, field.name) || value === null || isOmitted(field, value)) continue;
    const redaction = style.shown ? redactionIn(type, field, style, named) : undefined;
    out[style.camelCase === true ? jsonNameOf(field) : protoNameOf(field)] = printField(field, value, {
      ...style,
      redaction,
    });
  }
  return out;
}

function redactionIn(
  type: protobuf.Type,
  field: protobuf.Field,
  { redaction }: Style,
  named: ReturnType<typeof namedRedaction>,
): Redaction | undefined {
  if (redaction !== undefined) return isLocation(type, field) ? undefined : redaction;
  if (named !== undefined && field.name !== named.nameField) return named.redaction;
  return fieldRedaction(field);
}

/** Empty lists and maps, and fields without presence that hold their default, are not printed. */
function isOmitted(field: protobuf.Field, value: unknown): boolean {
  if (field.repeated) return (value as readonly unknown[]).length === 0;
  if (field.map) return Object.keys(value as object).length === 0;
  if (field.partOf !== null || field.resolvedType instanceof protobuf.Type) return false;
  if (field.type === 'bytes') return (value as Uint8Array).length === 0;
  return field.long ? String(value) === '0' : value === field.typeDefault && !Object.is(value, -0);
}

function printField(field: protobuf.Field, value: unknown, style: Style): Printed {
  if (field.repeated) return printList(field, value as readonly unknown[], style);
  if (!field.map) return printScalar(field, value, style);
  // Sorted: the order of map entries on the wire has no meaning, and stable output can be compared.
  const entries = Object.entries(value as object).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, printScalar(field, item, style)]));
}

/** Lists of at least this many messages are lazy. */
const LONG_LIST = 8;

function printList(field: protobuf.Field, items: readonly unknown[], style: Style): Printed {
  const lazy = style.shown && items.length >= LONG_LIST && field.resolvedType instanceof protobuf.Type;
  return lazy ? printOneByOne(field, items, style) : items.map((item) => printScalar(field, item, style));
}

function* printOneByOne(field: protobuf.Field, items: readonly unknown[], style: Style): Generator<Printed> {
  for (const item of items) yield printScalar(field, item, style);
}

function printScalar(field: protobuf.Field, value: unknown, style: Style): Printed {
  const target = field.resolvedType;
  if (target instanceof protobuf.Type) return printMessage(target, value as Decoded, deeper(style));
  if (target instanceof protobuf.Enum) {
    if (target.fullName === '.google.protobuf.NullValue') return null;
    return target.valuesById[value as number] ?? (value as number);
  }
  if (field.type === 'bytes') return printBytes(value as Uint8Array, style);
  if (style.redaction !== undefined && typeof value !== 'boolean') return style.redaction(String(value));
  if (field.long) return printLong(value, style);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value as boolean | number | string;
}

function printLong(value: unknown, { camelCase = false }: Style): string | number {
  const number = Number(value);
  return camelCase && Number.isSafeInteger(number) ? number : String(value);
}

function printBytes(value: Uint8Array, { redaction }: Style): string {
  const bytes = Buffer.from(value);
  return (redaction === undefined ? bytes : Buffer.from(redaction(bytes.toString()))).toString('base64');
}

function printAny(message: Decoded, style: Style): Printed {
  const typeUrl = String(message.typeUrl);
  const bytes = message.value as Uint8Array;
  if (typeUrl === '' && bytes.length === 0) return {};
  const type = findMessage(messageNameOf(typeUrl));
  if (type === undefined) {
    return { '@type': typeUrl, value: style.shown ? REDACTED : Buffer.from(bytes).toString('base64') };
  }
  if (style.shown && isOpaque(type)) return { '@type': typeUrl, value: REDACTED };
  const content = printMessage(type, decode(type, bytes), deeper(style));
  if (specialForm(type) !== undefined) return { '@type': typeUrl, value: content };
  return { '@type': typeUrl, ...(content as { readonly [key: string]: Printed }) };
}

function secondsAndNanos(message: Decoded): SecondsAndNanos {
  return { seconds: BigInt(String(message.seconds)), nanos: Number(message.nanos) };
}

function printStruct(message: Decoded, style: Style): Printed {
  const entries = Object.entries(message.fields as Record<string, Decoded>).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(
    entries.map(([key, value]) => {
      const secret = style.shown && style.redaction === undefined && isSecretName(key);
      return [key, printValue(value, secret ? { ...deeper(style), redaction: () => REDACTED } : deeper(style))];
    }),
  );
}

function printValue(message: Decoded, style: Style): Printed {
  if (style.depth > MAX_DEPTH) throw new CtlError('invalid_argument', 'google.protobuf.Value: nested too deep');
  switch (message.kind) {
    case 'numberValue':
    case 'stringValue': {
      const value = message[message.kind] as number | string;
      return style.redaction === undefined ? value : style.redaction(String(value));
    }
    case 'boolValue':
      return message.boolValue as boolean;
    case 'structValue':
      return printStruct(message.structValue as Decoded, style);
    case 'listValue':
      return ((message.listValue as Decoded).values as Decoded[]).map((value) => printValue(value, deeper(style)));
    default:
      return null;
  }
}
