import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Slices } from '../../core/slices.ts';
import { Batches, MAX_AT_ONCE } from './batches.ts';

const LARGE = MAX_AT_ONCE + 1;

class Bench {
  readonly done: string[] = [];
  #now = 0;
  // Each step takes a slice by this clock.
  readonly batches = new Batches(() => {
    this.#now += 100;
    return this.#now;
  });

  *work(name: string): Slices<void> {
    this.done.push(`${name} begins`);
    yield;
    yield;
    this.done.push(`${name} ends`);
  }

  *failing(): Slices<void> {
    yield;
    throw new Error('no space');
  }
}

describe('batches of sources', () => {
  it('are applied at once when they are small, or their source cannot wait', () => {
    const { batches, done, work } = bound();
    batches.run('a', work('first'));
    assert.equal(batches.runInSlices('a', MAX_AT_ONCE, work('second')), undefined);
    assert.deepEqual(done, ['first begins', 'first ends', 'second begins', 'second ends']);
    assert.equal(batches.ended(), undefined);
  });

  it('let the event loop run in between when they are large', async () => {
    const { batches, done, work } = bound();
    const applied = batches.runInSlices('a', LARGE, work('large'));
    setImmediate(() => done.push('another'));
    await batches.ended();
    assert.deepEqual(done, ['large begins', 'another', 'large ends']);
    await applied;
    assert.equal(batches.ended(), undefined);
  });

  it('of one source are applied in order, those of others meanwhile', () => {
    const { batches, done, work } = bound();
    batches.runInSlices('a', LARGE, work('large'));
    batches.run('b', work('other'));
    batches.run('a', work('next'));
    const expected = ['large begins', 'other begins', 'other ends', 'large ends', 'next begins', 'next ends'];
    assert.deepEqual(done, expected);
  });

  it('are applied at once when they are finished', () => {
    const { batches, done, work } = bound();
    batches.runInSlices('a', LARGE, work('a'));
    batches.runInSlices('b', LARGE, work('b'));
    batches.finish();
    assert.deepEqual(done, ['a begins', 'b begins', 'a ends', 'b ends']);
  });

  it('tell their source that they have failed, whatever their size, and do not stop later ones', async () => {
    const { batches, done, work, failing } = bound();
    assert.throws(() => batches.run('a', failing()), /no space/);
    assert.throws(() => batches.runInSlices('a', 1, failing()), /no space/);
    await assert.rejects(batches.runInSlices('a', LARGE, failing()) ?? Promise.resolve(), /no space/);
    const failed = assert.rejects(batches.runInSlices('a', LARGE, failing()) ?? Promise.resolve(), /no space/);
    batches.run('a', work('next'));
    assert.deepEqual(done, ['next begins', 'next ends']);
    await failed;
  });
});

function bound() {
  const bench = new Bench();
  const { batches, done } = bench;
  return { batches, done, work: (name: string) => bench.work(name), failing: () => bench.failing() };
}
