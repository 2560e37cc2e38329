/**
 * Entry point of the wire format: readers and writers of protobuf messages that need no generated code. Separate from
 * that of `protobuf`, which loads all of Envoy's messages.
 */
export { BackwardWriter } from './backward-writer.ts';
export { FieldScanner, MAX_FIELD_HEAD_BYTES } from './field-scanner.ts';
export { type WireField, WireReader } from './reader.ts';
export {
  delimitedLength,
  LENGTH_DELIMITED,
  VARINT,
  VarintDecoder,
  varintLength,
  writeDelimitedHead,
} from './varint.ts';
export { encodeFields, type FieldToWrite } from './writer.ts';
