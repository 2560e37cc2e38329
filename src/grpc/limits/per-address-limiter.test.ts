import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PerAddressLimiter } from './per-address-limiter.ts';

function fill(limits: PerAddressLimiter, addressOf: (index: number) => string): (() => void)[] {
  return Array.from({ length: 1000 }, (_, index) => limits.enter(addressOf(index))).filter(
    (leave) => leave !== undefined,
  );
}

test('one address gets most, the next one still gets some, and all together get at most the maximum', () => {
  const limits = new PerAddressLimiter(100);
  const first = fill(limits, () => '10.0.0.1');
  assert.equal(first.length, 80);
  assert.equal(fill(limits, () => '10.0.0.2').length, 16);
  assert.equal(fill(limits, (index) => `10.1.${index >> 8}.${index & 255}`).length, 4);
  for (const leave of first) leave();
  assert.equal(fill(limits, () => '10.0.0.3').length, 64);
});

test('several units are taken as if one by one', () => {
  const limits = new PerAddressLimiter(100);
  const first = limits.enter('10.0.0.1', 70);
  assert.equal(limits.enter('10.0.0.1', 11), undefined);
  const second = limits.enter('10.0.0.1', 10);
  assert.notEqual(second, undefined);
  assert.equal(limits.enter('10.0.0.2', 17), undefined);
  assert.notEqual(limits.enter('10.0.0.2', 16), undefined);
  first?.();
  first?.();
  assert.equal(fill(limits, () => '10.0.0.1').length, 58);
});

test('an address is the same in any notation, and an IPv6 network counts as one', () => {
  const rows: readonly [one: string, other: string, same: boolean][] = [
    ['10.0.0.1', '::ffff:10.0.0.1', true],
    ['10.0.0.1', '10.0.0.2', false],
    ['fd00:1:2:3::1', 'fd00:1:2:3:4:5:6:7', true],
    ['fd00:1:2:3::1', 'fd00:1:2:4::1', false],
    ['fd00::1', 'fd00::ffff:1', true],
    ['::1', 'fd00::1', false],
  ];
  for (const [one, other, same] of rows) {
    const limits = new PerAddressLimiter(10);
    assert.equal(fill(limits, () => one).length, 8);
    assert.equal(fill(limits, () => other).length, same ? 0 : 2, `${one} ${other}`);
  }
});

test('without a limit all are admitted', () => {
  assert.equal(fill(new PerAddressLimiter(Number.POSITIVE_INFINITY), () => '10.0.0.1').length, 1000);
});
