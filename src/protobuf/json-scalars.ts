/**
 * Scalars and enums of proto3 JSON. Type and range are checked, because the encoder would silently change a wrong
 * value.
 */
import protobuf from 'protobufjs';
import { CtlError } from '../core/errors.ts';

const MAX_FLOAT = 3.4028234663852886e38;

interface IntegerRange {
  readonly min: bigint;
  readonly max: bigint;
}

const INT32: IntegerRange = { min: -(2n ** 31n), max: 2n ** 31n - 1n };
const UINT32: IntegerRange = { min: 0n, max: 2n ** 32n - 1n };
const INT64: IntegerRange = { min: -(2n ** 63n), max: 2n ** 63n - 1n };
const UINT64: IntegerRange = { min: 0n, max: 2n ** 64n - 1n };

const RANGES: Readonly<Record<string, IntegerRange>> = {
  int32: INT32,
  sint32: INT32,
  sfixed32: INT32,
  uint32: UINT32,
  fixed32: UINT32,
  int64: INT64,
  sint64: INT64,
  sfixed64: INT64,
  uint64: UINT64,
  fixed64: UINT64,
};

function wrong(path: string, message: string): CtlError {
  return new CtlError('invalid_argument', message, { field: path });
}

/** One value of a scalar or enum field, in the form that the protobufjs encoder accepts. */
export function readScalar(field: protobuf.Field, json: unknown, path: string): unknown {
  if (field.resolvedType instanceof protobuf.Enum) return readEnum(field.resolvedType, json, path);
  const range = RANGES[field.type];
  if (range !== undefined) return readInteger(json, path, range, field.long);
  switch (field.type) {
    case 'bool':
      if (typeof json !== 'boolean') throw wrong(path, 'expected true or false');
      return json;
    case 'string':
      if (typeof json !== 'string') throw wrong(path, 'expected a string');
      return json;
    case 'bytes':
      return readBytes(json, path);
    default:
      return readFloat(json, path, field.type === 'float' ? MAX_FLOAT : Number.MAX_VALUE);
  }
}

function readEnum(type: protobuf.Enum, json: unknown, path: string): number {
  const value = typeof json === 'string' && Object.hasOwn(type.values, json) ? type.values[json] : json;
  if (json === null && type.fullName === '.google.protobuf.NullValue') return 0;
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw wrong(path, `expected one of ${Object.keys(type.values).join(', ')}`);
  }
  return value;
}

function readInteger(json: unknown, path: string, range: IntegerRange, long: boolean): unknown {
  const whole = typeof json === 'number' ? Number.isInteger(json) : typeof json === 'string' && /^-?\d+$/.test(json);
  if (!whole) throw wrong(path, 'expected a whole number');
  const value = BigInt(json as number | string);
  if (value < range.min || value > range.max) throw wrong(path, `expected ${range.min} to ${range.max}`);
  return long ? toLong(value) : Number(value);
}

/** A 64-bit integer as two halves, for the encoder; a number would lose digits beyond 2^53. */
export function toLong(value: bigint): { low: number; high: number } {
  return { low: Number(BigInt.asIntN(32, value)), high: Number(BigInt.asIntN(32, value >> 32n)) };
}

function readFloat(json: unknown, path: string, max: number): number {
  if (json === 'NaN' || json === 'Infinity' || json === '-Infinity') return Number(json);
  const value = typeof json === 'string' && json.trim() !== '' ? Number(json) : json;
  if (typeof value !== 'number' || !(Math.abs(value) <= max)) throw wrong(path, 'expected a number');
  return value;
}

function readBytes(json: unknown, path: string): Uint8Array {
  // Both alphabets, with or without padding, as the JSON mapping accepts.
  if (typeof json !== 'string' || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(json)) throw wrong(path, 'expected base64');
  return Buffer.from(json, 'base64');
}
