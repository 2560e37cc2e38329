import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import protobuf from 'protobufjs/minimal.js';
import { CtlError } from '../../core/errors.ts';
import * as fc from '../../core/testing/properties.ts';
import {
  BackwardWriter,
  encodeFields,
  FieldScanner,
  type FieldToWrite,
  LENGTH_DELIMITED,
  VARINT,
  varintLength,
  WireReader,
} from './index.ts';

const fieldNumbers = fc.integer({ min: 1, max: 2 ** 29 - 1 });
const numbers = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.maxSafeNat());
const values = fc.oneof(fc.string({ unit: 'binary' }), numbers, fc.uint8Array({ maxLength: 300 }));
const messages = fc.array(fc.tuple(fieldNumbers, values), { maxLength: 8 });

/** What protobufjs writes for the same fields. */
function expected(fields: readonly FieldToWrite[]): Buffer {
  const writer = protobuf.Writer.create();
  for (const [field, value] of fields) {
    writer.uint32((field * 8 + (typeof value === 'number' ? VARINT : LENGTH_DELIMITED)) >>> 0);
    if (typeof value === 'number') writer.uint64(value);
    else if (typeof value === 'string') writer.bytes(Buffer.from(value));
    else writer.bytes(value);
  }
  return Buffer.from(writer.finish());
}

describe('the protobuf wire format', () => {
  it('is written as protobufjs writes it', () => {
    fc.assert(
      fc.property(messages, (fields) => {
        assert.deepEqual(encodeFields(fields), expected(fields));
      }),
    );
  });

  it('is read back as it was written', () => {
    fc.assert(
      fc.property(messages, (fields) => {
        const reader = new WireReader(encodeFields(fields));
        for (const [number, value] of fields) {
          const field = reader.next();
          assert.equal(field?.number, number);
          if (typeof value === 'number') assert.equal(field?.value, value);
          else assert.deepEqual(reader.content(field), Buffer.from(value));
          if (typeof value === 'string') assert.equal(reader.text(field), Buffer.from(value).toString());
        }
        assert.equal(reader.next(), undefined);
      }),
    );
  });

  it('has negative int32 numbers of ten bytes', () => {
    for (const value of [0, 1, -1, 2 ** 31 - 1, -(2 ** 31)]) {
      const bytes = Buffer.from(protobuf.Writer.create().uint32(8).int32(value).finish());
      const reader = new WireReader(bytes);
      const field = reader.next();
      assert.ok(field);
      assert.equal(reader.int32(field), value);
    }
  });

  it('is written backwards to the same bytes', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.string({ maxLength: 400 }), (a, n, b) => {
        const writer = new BackwardWriter(4);
        const outer = writer.mark();
        writer.string(2, b);
        writer.uint32(1, n);
        writer.message(7, outer);
        writer.string(3, a);
        const inner: FieldToWrite[] = [
          [1, n],
          [2, b],
        ];
        assert.deepEqual(
          Buffer.from(writer.finish()),
          encodeFields([
            [3, a],
            [7, encodeFields(inner)],
          ]),
        );
      }),
    );
  });

  for (const [what, bytes, message] of [
    ['a tag that is cut short', [0x80], 'it ends inside a number'],
    ['a length without content', [0x0a, 5, 1], 'a field is longer than its message'],
    ['a varint of eleven bytes', [8, ...Array.from({ length: 11 }, () => 0x80), 1], 'a number of more than 10 bytes'],
    ['field number 0', [0x02, 0], 'field number 0'],
    ['a field number of 30 bits', [0x82, 0x80, 0x80, 0x80, 0x10, 0], 'a field number of more than 29 bits'],
    ['a tag of 64 bits', [...Array.from({ length: 9 }, () => 0x82), 1, 0], 'a field number of more than 29 bits'],
    ['a group', [0x0b], 'wire type 3'],
    ['a fixed number that is cut short', [0x0d, 1, 2], 'a field is longer than its message'],
  ] as const)
    it(`is refused with ${what}`, () => {
      const reader = new WireReader(Buffer.from(bytes));
      assert.throws(() => reader.next(), new CtlError('invalid_argument', `not a protobuf message: ${message}`));
    });

  it('lets the head of a field be read before its content has arrived', () => {
    const bytes = encodeFields([[5, 'x'.repeat(300)]]);
    const scanner = new FieldScanner();
    const head = varintLength(5 * 8) + varintLength(300);
    for (let arrived = 0; arrived < head; arrived++) assert.equal(scanner.read(bytes, 0, arrived), false);
    assert.equal(scanner.read(bytes, 0, head), true);
    assert.deepEqual([scanner.number, scanner.end], [5, bytes.length]);
  });
});
