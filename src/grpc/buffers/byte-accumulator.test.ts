import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { ByteAccumulator } from './byte-accumulator.ts';

test('pieces are joined in order, however they are cut', () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)));
  fc.assert(
    fc.property(pieces, pieces, (first, second) => {
      const gathered = new ByteAccumulator();
      for (const part of [first, second]) {
        for (const piece of part) gathered.add(piece);
        assert.deepEqual(gathered.view(), Buffer.concat(part));
        assert.equal(gathered.length, Buffer.concat(part).length);
        assert.deepEqual(gathered.take(), Buffer.concat(part));
        assert.equal(gathered.length, 0);
      }
    }),
  );
});

test('it keeps copies of pieces', () => {
  const gathered = new ByteAccumulator();
  const piece = Buffer.from('abc');
  gathered.add(piece);
  piece.fill(0);
  assert.deepEqual(gathered.view(), Buffer.from('abc'));
});
