import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SmallWrites } from './small-writes.ts';

describe('small writes', () => {
  it('need no slot up to a size, in the Delta protocol', () => {
    const writes = new SmallWrites();
    assert.equal(writes.admit('delta', 2048), true);
    assert.equal(writes.admit('delta', 2049), false);
    assert.equal(writes.admit('sotw', 1), false);
  });

  it('wait in bounded number: another is admitted when one has left', () => {
    const writes = new SmallWrites();
    const admitted = Array.from({ length: 1100 }, () => writes.admit('delta', 1)).filter((each) => each);
    assert.equal(admitted.length, 1024);
    writes.left();
    assert.deepEqual([writes.admit('delta', 1), writes.admit('delta', 1)], [true, false]);
  });
});
