import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../core/testing/properties.ts';
import { formatDuration, parseDuration } from './duration.ts';

const SAME_TEXT: readonly (readonly [string, number])[] = [
  ['0s', 0],
  ['100ms', 100],
  ['1m0s', 60_000],
  ['1s', 1_000],
  ['1.5s', 1_500],
  ['24h0m0s', 86_400_000],
  ['87600h0m0s', 315_360_000_000],
  ['-1m30s', -90_000],
  ['1µs', 0.001],
  ['1ns', 0.000001],
];

for (const [text, ms] of SAME_TEXT) {
  test(`${text} is ${ms} ms and formatted as the same text`, () => {
    assert.equal(parseDuration(text), ms);
    assert.equal(formatDuration(ms), text);
  });
}

const OTHER_FORMS: readonly (readonly [string, string])[] = [
  ['0', '0s'],
  ['+5s', '5s'],
  ['90s', '1m30s'],
  ['1h30m', '1h30m0s'],
  ['.5s', '500ms'],
  ['5.s', '5s'],
  ['2us', '2µs'],
  ['2μs', '2µs'],
  ['1s1s', '2s'],
  ['1.0000000009s', '1s'],
];

for (const [text, shown] of OTHER_FORMS) {
  test(`${text} is formatted as ${shown}`, () => assert.equal(formatDuration(parseDuration(text)), shown));
}

test('the largest duration means no limit and is formatted as the same text', () => {
  assert.equal(parseDuration('2562047h47m16.854775807s'), Number.POSITIVE_INFINITY);
  assert.equal(formatDuration(Number.POSITIVE_INFINITY), '2562047h47m16.854775807s');
});

for (const text of [
  '',
  ' ',
  'NaN',
  'NaNs',
  'Infinity',
  'banana',
  '5parsecs',
  '5',
  '1h5',
  '1.5',
  's',
  '.s',
  '-',
  '--1s',
  '1s ',
  '1e3s',
  '2562047h47m16.854775808s',
  '0x10s',
]) {
  test(`${JSON.stringify(text)} is refused with an error of one line`, () => {
    assert.throws(
      () => parseDuration(text),
      (error: Error) => !error.message.includes('\n') && error.message.startsWith('not a duration'),
    );
  });
}

test('NaN cannot be formatted', () => assert.throws(() => formatDuration(Number.NaN)));

test('any whole number of microseconds up to centuries can be formatted and parsed', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10 ** 13 }), fc.integer({ min: 0, max: 999 }), (ms, us) => {
      const value = ms > 10 ** 9 ? ms : ms + us / 1000;
      assert.equal(parseDuration(formatDuration(value)), value > 9_223_372_036_853 ? Number.POSITIVE_INFINITY : value);
    }),
  );
});

test('any text gives a number or an error of one line', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'0123456789.-+nuµmsh x') }), (text) => {
      try {
        assert.equal(typeof parseDuration(text), 'number');
      } catch (error) {
        assert.ok(error instanceof Error && !error.message.includes('\n'));
      }
    }),
  );
});
