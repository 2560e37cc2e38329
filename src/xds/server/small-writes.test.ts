import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SmallWrites } from './small-writes.ts';

describe('small writes', () => {
  it('need no slot up to a size', () => {
    const writes = new SmallWrites();
    assert.equal(writes.admit(2048), true);
    assert.equal(writes.admit(2049), false);
  });

  it('are limited in number until they have left', () => {
    const writes = new SmallWrites();
    const admitted = Array.from({ length: 1100 }, () => writes.admit(1)).filter((each) => each);
    assert.equal(admitted.length, 1024);
    writes.left();
    assert.deepEqual([writes.admit(1), writes.admit(1)], [true, false]);
  });
});
