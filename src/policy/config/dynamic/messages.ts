/** Writes protobuf messages whose fields are known at run time only. */
import type { Duration, Timestamp, Value, ValueType } from '../../../expressions/index.ts';

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

export function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  // Negative numbers have ten bytes.
  let rest = BigInt.asUintN(64, value);
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return Buffer.from(bytes);
}

const tag = (field: number, wireType: number): Buffer => varint(BigInt(field) * 8n + BigInt(wireType));

export function varintField(field: number, value: bigint): Buffer {
  return Buffer.concat([tag(field, VARINT), varint(value)]);
}

export function bytesField(field: number, content: Uint8Array): Buffer {
  return Buffer.concat([tag(field, LENGTH_DELIMITED), varint(BigInt(content.length)), content]);
}

export const stringField = (field: number, text: string): Buffer => bytesField(field, Buffer.from(text));

function fixed64Field(field: number, write: (buffer: Buffer) => void): Buffer {
  const content = Buffer.alloc(8);
  write(content);
  return Buffer.concat([tag(field, FIXED64), content]);
}

function fixed32Field(field: number, write: (buffer: Buffer) => void): Buffer {
  const content = Buffer.alloc(4);
  write(content);
  return Buffer.concat([tag(field, FIXED32), content]);
}

const zigzag = (value: bigint): bigint => (value << 1n) ^ (value >> 63n);

/** How numbers are written, by `FieldDescriptorProto.Type`. */
export const NUMBERS: ReadonlyMap<number, (field: number, value: bigint) => Buffer> = new Map([
  [3, varintField],
  [4, varintField],
  [5, varintField],
  [13, varintField],
  [14, varintField],
  [17, (field, value) => varintField(field, zigzag(value))],
  [18, (field, value) => varintField(field, zigzag(value))],
  [6, (field, value) => fixed64Field(field, (buffer) => buffer.writeBigUInt64LE(BigInt.asUintN(64, value)))],
  [16, (field, value) => fixed64Field(field, (buffer) => buffer.writeBigInt64LE(BigInt.asIntN(64, value)))],
  [7, (field, value) => fixed32Field(field, (buffer) => buffer.writeUInt32LE(Number(BigInt.asUintN(32, value))))],
  [15, (field, value) => fixed32Field(field, (buffer) => buffer.writeInt32LE(Number(BigInt.asIntN(32, value))))],
]);

export const DOUBLES: ReadonlyMap<number, (field: number, value: number) => Buffer> = new Map([
  [1, (field, value) => fixed64Field(field, (buffer) => buffer.writeDoubleLE(value))],
  [2, (field, value) => fixed32Field(field, (buffer) => buffer.writeFloatLE(value))],
]);

/** The fields `seconds` and `nanos` of google.protobuf.Timestamp and Duration. */
export function timeMessage({ nanos }: Timestamp | Duration, kind: 'timestamp' | 'duration'): Buffer {
  let seconds = nanos / 1_000_000_000n;
  let rest = nanos % 1_000_000_000n;
  // The nanoseconds of a timestamp count forward; those of a duration have its sign.
  if (kind === 'timestamp' && rest < 0n) {
    seconds -= 1n;
    rest += 1_000_000_000n;
  }
  return Buffer.concat([
    ...(seconds === 0n ? [] : [varintField(1, seconds)]),
    ...(rest === 0n ? [] : [varintField(2, rest)]),
  ]);
}

/** The content of the messages of `istio.policy.v1beta1` that wrap one value. */
function wrapped(type: ValueType, value: Value): Buffer {
  switch (type) {
    case 'IP_ADDRESS':
      return bytesField(1, value as Uint8Array);
    case 'TIMESTAMP':
      return bytesField(1, timeMessage(value as Timestamp, 'timestamp'));
    case 'DURATION':
      return bytesField(1, timeMessage(value as Duration, 'duration'));
    case 'STRING_MAP':
      return Buffer.concat(
        [...(value as ReadonlyMap<string, string>)].map(([key, text]) =>
          bytesField(1, Buffer.concat([stringField(1, key), stringField(2, text)])),
        ),
      );
    default:
      return stringField(1, value as string);
  }
}

/** The messages of `istio.policy.v1beta1` by the type of expression that they take. */
export const WRAPPERS: ReadonlyMap<string, ValueType> = new Map([
  ['.istio.policy.v1beta1.IPAddress', 'IP_ADDRESS'],
  ['.istio.policy.v1beta1.TimeStamp', 'TIMESTAMP'],
  ['.istio.policy.v1beta1.Duration', 'DURATION'],
  ['.istio.policy.v1beta1.EmailAddress', 'EMAIL_ADDRESS'],
  ['.istio.policy.v1beta1.DNSName', 'DNS_NAME'],
  ['.istio.policy.v1beta1.Uri', 'URI'],
  ['.istio.policy.v1beta1.StringMap', 'STRING_MAP'],
]);

export const VALUE_MESSAGE = '.istio.policy.v1beta1.Value';

/** Fields of `istio.policy.v1beta1.Value`. */
const VALUE_FIELDS: Readonly<Record<ValueType, number>> = {
  STRING: 1,
  INT64: 2,
  DOUBLE: 3,
  BOOL: 4,
  IP_ADDRESS: 5,
  TIMESTAMP: 6,
  DURATION: 7,
  EMAIL_ADDRESS: 8,
  DNS_NAME: 9,
  URI: 10,
  STRING_MAP: 11,
};

export function wrapperMessage(type: ValueType, value: Value): Buffer {
  return wrapped(type, value);
}

/** A message `istio.policy.v1beta1.Value`. */
export function valueMessage(type: ValueType, value: Value): Buffer {
  const field = VALUE_FIELDS[type];
  if (typeof value === 'bigint') return varintField(field, value);
  if (typeof value === 'boolean') return varintField(field, value ? 1n : 0n);
  if (typeof value === 'number') return fixed64Field(field, (buffer) => buffer.writeDoubleLE(value));
  return type === 'STRING' ? stringField(field, value as string) : bytesField(field, wrapped(type, value));
}
