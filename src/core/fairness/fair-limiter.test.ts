import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairLimiter } from './fair-limiter.ts';

test('one client gets half, another still some, and all together not more than the limit', () => {
  const limiter = new FairLimiter(12);
  const acquired = (client: string) => {
    const releases: (() => void)[] = [];
    for (let release = limiter.enter(client); release !== undefined; release = limiter.enter(client))
      releases.push(release);
    return releases;
  };
  const first = acquired('a');
  assert.equal(first.length, 6);
  const second = acquired('b');
  assert.equal(second.length, 3);
  assert.ok(limiter.size <= 12);
  for (const release of [...first, ...second, ...first]) release();
  assert.equal(limiter.size, 0);
  assert.equal(acquired('c').length, 6);
});
