import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../core/errors.ts';
import { checkDer, sliceDer, splitDer } from './der.ts';

const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(' ', ''), 'hex');

test('an element is split into tag and content, and found in the one around it', () => {
  assert.deepEqual(splitDer(bytes('02020102')), { tag: 0x02, content: bytes('0102') });
  assert.deepEqual(sliceDer(bytes('3007 0101ff 02020102'), [1]), bytes('02020102'));
  assert.deepEqual(sliceDer(bytes('3004 3002 0500'), [0, 0]), bytes('0500'));
  assert.throws(() => sliceDer(bytes('3003 0101ff'), [1]), /cut short/);
});

test('encodings that DER does not allow are refused', () => {
  const rows: readonly [hex: string, message: RegExp][] = [
    ['02', /cut short/],
    ['0202 01', /cut short/],
    ['0282 01', /cut short|beyond its end/],
    ['3080 0000', /indefinite length/],
    ['028101 01', /shortest form/],
    ['02820001 01', /shortest form/],
    ['0284 00000001 01', /beyond its end/],
    ['1f01 00', /a tag that no certificate has/],
  ];
  for (const [hex, message] of rows)
    for (const read of [checkDer, splitDer])
      assert.throws(
        () => read(bytes(hex)),
        (error) => error instanceof CtlError && error.code === 'invalid_argument' && message.test(error.message),
        hex,
      );
});

test('bytes after the element, deep nesting and very many elements are refused', () => {
  assert.throws(() => checkDer(bytes('3000 3000')), /bytes after/);
  let nested = bytes('0500');
  for (let depth = 0; depth < 20; depth++) nested = Buffer.concat([Buffer.from([0x30, nested.length]), nested]);
  assert.throws(() => checkDer(nested), /nested deeper than 16/);
  const many = Buffer.concat(Array.from({ length: 1100 }, () => bytes('0500')));
  assert.throws(() => checkDer(Buffer.concat([bytes('308208 98'), many])), /more than 1024 elements/);
});
