/**
 * Reads protobuf messages by tables that name only the fields that are wanted; all others are skipped without being
 * decoded. The result is what the JSON form of the same object would parse to: fields that JSON leaves out when they
 * are empty are left out here too.
 */
import protobuf from 'protobufjs/minimal.js';
import { CtlError } from '../core/errors.ts';

type Reader = protobuf.Reader;
type Target = Record<string, unknown>;

/** Reads one occurrence of a field into the object. `wireType` is from the tag before it. */
type FieldReader = (target: Target, reader: Reader, wireType: number, limit: number) => void;

export interface MessageTable {
  /** Readers by field number. */
  readonly fields: ReadonlyMap<number, FieldReader>;
  /** Lists that JSON contains even when they are empty. */
  readonly lists: readonly string[];
}

/** Wire types (protobuf documentation, "Encoding"). */
const VARINT = 0;
const BYTES = 2;

export function message(fields: Readonly<Record<number, FieldReader>>, lists: readonly string[] = []): MessageTable {
  return { fields: new Map(Object.entries(fields).map(([number, read]) => [Number(number), read])), lists };
}

/**
 * @throws CtlError if the bytes are not such a message
 */
export function decodeMessage(table: MessageTable, bytes: Uint8Array): Target {
  const reader = protobuf.Reader.create(bytes);
  return readMessage(table, reader, reader.len);
}

/**
 * Decodes only the first field of a message: later fields may be malformed. @throws CtlError if the first is malformed
 */
export function decodeFirstField(table: MessageTable, bytes: Uint8Array): Target {
  const reader = protobuf.Reader.create(bytes);
  const target: Target = {};
  const tag = reader.uint32();
  table.fields.get(tag >>> 3)?.(target, reader, tag & 7, reader.len);
  return target;
}

function readMessage(table: MessageTable, reader: Reader, end: number): Target {
  const target: Target = {};
  for (const name of table.lists) target[name] = [];
  while (reader.pos < end) {
    const tag = reader.uint32();
    const read = table.fields.get(tag >>> 3);
    if (read === undefined) reader.skipType(tag & 7);
    else read(target, reader, tag & 7, end);
  }
  if (reader.pos !== end) throw new CtlError('unavailable', 'a field is longer than its message');
  return target;
}

function expectType(actual: number, expected: number): void {
  if (actual !== expected) throw new CtlError('unavailable', `expected wire type ${expected}, got ${actual}`);
}

/** The end of a length-delimited field that begins here. */
function endOf(reader: Reader, wireType: number, limit: number): number {
  expectType(wireType, BYTES);
  const length = reader.uint32();
  const end = reader.pos + length;
  if (end > limit) throw new CtlError('unavailable', 'a field is longer than its message');
  return end;
}

/**
 * Strings that many objects share are kept once. When there are more different strings than this, the table is cleared.
 */
const MAX_SHARED = 65_536;
/** Longer strings are rarely equal. */
const MAX_SHARED_LENGTH = 128;
const shared = new Map<string, string>();

function sharedText(text: string): string {
  if (text.length > MAX_SHARED_LENGTH) return text;
  const known = shared.get(text);
  if (known !== undefined) return known;
  if (shared.size >= MAX_SHARED) shared.clear();
  shared.set(text, text);
  return text;
}

function readText(reader: Reader, wireType: number): string {
  expectType(wireType, BYTES);
  return reader.string();
}

/** A string that JSON omits when it is empty. */
export function text(name: string): FieldReader {
  return (target, reader, wireType) => {
    const value = readText(reader, wireType);
    if (value !== '') target[name] = value;
  };
}

/** A string with few different values: a node, a protocol, a status. */
export function word(name: string): FieldReader {
  return (target, reader, wireType) => {
    const value = readText(reader, wireType);
    if (value !== '') target[name] = sharedText(value);
  };
}

/** A string that may be present and empty. */
export function presentWord(name: string): FieldReader {
  return (target, reader, wireType) => {
    target[name] = sharedText(readText(reader, wireType));
  };
}

export function texts(name: string): FieldReader {
  return (target, reader, wireType) => {
    listOf(target, name).push(readText(reader, wireType));
  };
}

/** A boolean that JSON omits when it is false. */
export function flag(name: string): FieldReader {
  return (target, reader, wireType) => {
    expectType(wireType, VARINT);
    if (reader.bool()) target[name] = true;
  };
}

/** A boolean whose absence does not mean false. */
export function presentFlag(name: string): FieldReader {
  return (target, reader, wireType) => {
    expectType(wireType, VARINT);
    target[name] = reader.bool();
  };
}

/** A 32-bit number that JSON omits when it is 0. */
export function int32(name: string): FieldReader {
  return (target, reader, wireType) => {
    expectType(wireType, VARINT);
    const value = reader.int32();
    if (value !== 0) target[name] = value;
  };
}

/** A 64-bit number that JSON omits when it is 0; exact up to 2^53. */
export function int64(name: string): FieldReader {
  return (target, reader, wireType) => {
    expectType(wireType, VARINT);
    const value = Number(reader.int64());
    if (value !== 0) target[name] = value;
  };
}

/** A message, which is present even when it is empty. */
export function nested(name: string, table: MessageTable): FieldReader {
  return (target, reader, wireType, limit) => {
    target[name] = readMessage(table, reader, endOf(reader, wireType, limit));
  };
}

/** A message from which `pick` makes the value of the field. */
export function nestedAs(name: string, table: MessageTable, pick: (value: Target) => unknown): FieldReader {
  return (target, reader, wireType, limit) => {
    const value = pick(readMessage(table, reader, endOf(reader, wireType, limit)));
    if (value !== undefined) target[name] = value;
  };
}

export function items(name: string, table: MessageTable): FieldReader {
  return (target, reader, wireType, limit) => {
    listOf(target, name).push(readMessage(table, reader, endOf(reader, wireType, limit)));
  };
}

type Value = (reader: Reader, wireType: number, limit: number) => string;

/** A map with string keys (a list of entries with key 1 and value 2), without the key `except`. */
function map(name: string, readValue: Value, except?: string): FieldReader {
  return (target, reader, wireType, limit) => {
    const end = endOf(reader, wireType, limit);
    let [key, value] = ['', ''];
    while (reader.pos < end) {
      const tag = reader.uint32();
      if (tag >>> 3 === 1) key = sharedText(readText(reader, tag & 7));
      else if (key === except) reader.skipType(tag & 7);
      else if (tag >>> 3 === 2) value = readValue(reader, tag & 7, end);
      else reader.skipType(tag & 7);
    }
    if (reader.pos !== end) throw new CtlError('unavailable', 'a field is longer than its message');
    // Setting it would set the prototype.
    if (key !== '__proto__' && key !== except) mapOf(target, name)[key] = value;
  };
}

/** `map<string, string>`. */
export function textMap(name: string, except?: string): FieldReader {
  return map(name, (reader, wireType) => sharedText(readText(reader, wireType)), except);
}

/** `map<string, bytes>`: values in base64, as in JSON. */
export function bytesMap(name: string): FieldReader {
  return map(name, (reader, wireType, limit) => {
    const end = endOf(reader, wireType, limit);
    const bytes = reader.buf.subarray(reader.pos, end);
    reader.pos = end;
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  });
}

/** The bytes themselves, not copied. */
export function raw(name: string): FieldReader {
  return (target, reader, wireType, limit) => {
    const end = endOf(reader, wireType, limit);
    target[name] = reader.buf.subarray(reader.pos, end);
    reader.pos = end;
  };
}

export function rawItems(name: string): FieldReader {
  return (target, reader, wireType, limit) => {
    const end = endOf(reader, wireType, limit);
    listOf(target, name).push(reader.buf.subarray(reader.pos, end));
    reader.pos = end;
  };
}

function listOf(target: Target, name: string): unknown[] {
  const list = target[name];
  if (Array.isArray(list)) return list;
  const made: unknown[] = [];
  target[name] = made;
  return made;
}

function mapOf(target: Target, name: string): Target {
  const map = target[name];
  if (typeof map === 'object' && map !== null) return map as Target;
  const made: Target = {};
  target[name] = made;
  return made;
}
