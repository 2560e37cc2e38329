import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDecoded, decodeUtf8, NotUtf8 } from './utf8.ts';

const lineOf = (bytes: readonly number[]): number | undefined => {
  try {
    decodeUtf8(Uint8Array.from(bytes));
    return undefined;
  } catch (error) {
    assert.ok(error instanceof NotUtf8);
    return error.line;
  }
};

test('the line of the first byte that is not UTF-8', () => {
  const [newline, lead, follow] = [0x0a, 0xc3, 0xbc];
  assert.equal(lineOf([0x61, newline, lead, follow, newline]), undefined);
  assert.equal(lineOf([0xff, 0xfe, 0x61, 0x00]), 1);
  assert.equal(lineOf([newline, 0x61, newline, lead, newline, 0xff]), 3);
  assert.equal(lineOf([newline, lead]), 2);
  // A surrogate half and an overlong form are not characters either.
  assert.equal(lineOf([0xed, 0xa0, 0x80]), 1);
  assert.equal(lineOf([0xc0, 0x80]), 1);
});

test('the bytes are requested only in doubt', () => {
  assert.equal(
    checkDecoded('plain ü', () => assert.fail('asked for')),
    'plain ü',
  );
  const text = 'a \ufffd';
  assert.equal(
    checkDecoded(text, () => Buffer.from(text)),
    text,
  );
  assert.throws(() => checkDecoded(text, () => Buffer.from([0x61, 0x20, 0xe4])), NotUtf8);
});
