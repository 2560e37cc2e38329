/** Strings, switches and structs in a node's metadata, with bounded lengths. Source: google/protobuf/struct.proto */
import { LENGTH_DELIMITED, type WireField, type WireReader } from '../../protobuf/wire/index.ts';
import { isEnabled } from '../../settings/index.ts';
import { invalid } from './node-error.ts';

/** Maximum length of a metadata string that is read: the longest valid one is a list of addresses. */
export const MAX_STRING_BYTES = 4096;

export function boundedText(reader: WireReader, field: WireField, limit: number, what: string): string {
  if (field.wireType !== LENGTH_DELIMITED) throw invalid('must be a string', what);
  if (field.end - field.start > limit) throw invalid(`longer than ${limit} bytes`, what);
  return reader.text(field);
}

/** Field numbers of google.protobuf.Value. */
export const VALUE_NULL = 1;
export const VALUE_STRING = 3;
const VALUE_BOOLEAN = 4;
export const VALUE_STRUCT = 5;

/** A Value that must be a string; null and a Value without a kind count as absent (undefined). */
export function stringValue(reader: WireReader, what: string): string | undefined {
  let text: string | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === VALUE_STRING) text = boundedText(reader, field, MAX_STRING_BYTES, what);
    else if (field.number === VALUE_NULL) text = undefined;
    else throw invalid('must be a string', what);
  }
  return text;
}

/** Whether the Value of a switch is on. */
export function isOn(reader: WireReader, what: string): boolean {
  let on = false;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === VALUE_BOOLEAN) on = field.value !== 0;
    else if (field.number === VALUE_STRING) on = isEnabled(boundedText(reader, field, MAX_STRING_BYTES, what));
    else on = false;
  }
  return on;
}

/** Key and encoded Value of an entry of Struct.fields. */
export function structEntry(reader: WireReader, what: string): { key: string; value: WireReader | undefined } {
  let key = '';
  let value: WireReader | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) key = boundedText(reader, field, MAX_STRING_BYTES, `${what} key`);
    else if (field.number === 2) value = reader.inside(field);
  }
  return { key, value };
}
