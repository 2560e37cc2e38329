import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MESSAGES, NOT_REPORTED } from './index.ts';
import { codesIn } from './testing/analyzed.ts';

describe('each code', () => {
  for (const [code, { name, example, mended }] of Object.entries(MESSAGES)) {
    test(`${code} ${name} is found in its example, and not where that is mended`, () => {
      const [found, left] = [codesIn(example), codesIn(mended)];
      assert.ok(found.includes(code), `found ${found.join(', ')}`);
      assert.ok(!left.includes(code) && !left.includes('IST0106'), `found ${left.join(', ')}`);
    });
  }
});

test('a code is either reported or not', () => {
  assert.deepEqual(
    Object.keys(NOT_REPORTED).filter((code) => Object.hasOwn(MESSAGES, code)),
    [],
  );
});
