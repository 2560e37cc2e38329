import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDer, derInside, derValues, sliceDer, splitDer, TAG } from './der.ts';

const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(' ', ''), 'hex');

test('values are read one after the other, and inside of another', () => {
  const two = [
    { tag: TAG.boolean, content: bytes('ff') },
    { tag: TAG.integer, content: bytes('0102') },
  ];
  assert.deepEqual(derValues(bytes('0101ff 02020102')), two);
  assert.deepEqual(derInside(bytes('3007 0101ff 02020102'), TAG.sequence), two);
  assert.deepEqual(derValues(bytes('')), []);
  assert.deepEqual(splitDer(bytes('02020102')), two[1]);
  assert.deepEqual(sliceDer(bytes('3007 0101ff 02020102'), [1]), bytes('02020102'));
});

test('what DER does not allow is refused by each of them', () => {
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
  for (const [hex, message] of rows) {
    for (const read of [derValues, checkDer, splitDer, (der: Buffer) => derInside(der, TAG.sequence)])
      assert.throws(() => read(bytes(hex)), message, hex);
  }
  for (const hex of ['', '3000 3000', '0201 01']) assert.throws(() => derInside(bytes(hex), TAG.sequence), /expected/);
});
