import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { addressBytes } from '../../model/common/networks.ts';
import { addressKey, cidrRange, cidrRanges, isRange } from './cidr.ts';

const cases: readonly (readonly [text: string, prefix: string, length: number])[] = [
  ['10.1.2.3/8', '10.0.0.0', 8],
  ['10.1.2.3', '10.1.2.3', 32],
  ['10.1.2.255/31', '10.1.2.254', 31],
  ['0.0.0.0/0', '0.0.0.0', 0],
  ['::/0', '::', 0],
  ['::1', '::1', 128],
  ['2001:DB8:0:0:1:0:0:0/80', '2001:db8:0:0:1::', 80],
  ['fe80::1/10', 'fe80::', 10],
];

for (const [text, addressPrefix, value] of cases) {
  test(`${text} matches ${addressPrefix}/${value}`, () => {
    assert.deepEqual(cidrRange(text), { addressPrefix, prefixLen: { value } });
  });
}

for (const text of ['', 'web', '10.0.0.1/33', '10.0.0.1/-1', '10.0.0.1/x', '10.0.0.1/8/8', '::1/129']) {
  test(`${JSON.stringify(text)} is not a range`, () => {
    assert.equal(cidrRange(text), undefined);
    assert.equal(isRange(text), false);
  });
}

test('a prefix of all bits is one address, not a range', () => {
  assert.deepEqual(['10.0.0.1/32', '::1/128', '10.0.0.1', '10.0.0.0/31'].map(isRange), [false, false, false, true]);
});

test('equal ranges have the same key, and appear once in a list', () => {
  assert.equal(addressKey('10.1.0.0/8'), addressKey('10.2.0.0/8'));
  assert.equal(addressKey('10.0.0.1/32'), addressKey('10.0.0.1'));
  assert.equal(addressKey('2001:db8::1'), addressKey('2001:DB8:0::1'));
  assert.notEqual(addressKey('10.0.0.1'), addressKey('10.0.0.2'));
  assert.equal(cidrRanges(['10.1.0.0/8', '10.2.0.0/8', 'web', '11.0.0.0/8']).length, 2);
});

test('other spellings of an address mean the same bytes', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
      const prefix = cidrRange(address)?.addressPrefix ?? '';
      assert.deepEqual(addressBytes(prefix), addressBytes(address));
    }),
  );
});
