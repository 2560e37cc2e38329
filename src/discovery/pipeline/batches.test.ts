import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Slices } from '../../core/slices.ts';
import { Batches, MAX_AT_ONCE } from './batches.ts';

const LARGE = MAX_AT_ONCE + 1;

class Bench {
  readonly done: string[] = [];
  readonly errors: string[] = [];
  #now = 0;
  // Each step takes a slice by this clock.
  readonly batches = new Batches(
    () => {
      this.#now += 100;
      return this.#now;
    },
    { error: (line: string) => this.errors.push(line) },
  );

  *work(name: string): Slices<void> {
    this.done.push(`${name} begins`);
    yield;
    yield;
    this.done.push(`${name} ends`);
  }
}

function served(): Bench {
  const bench = new Bench();
  bench.batches.slice();
  return bench;
}

describe('batches of sources', () => {
  it('are applied at once while nobody is served, and small ones always', () => {
    const bench = new Bench();
    bench.batches.run('a', LARGE, bench.work('first'));
    bench.batches.slice();
    bench.batches.run('a', MAX_AT_ONCE, bench.work('second'));
    assert.deepEqual(bench.done, ['first begins', 'first ends', 'second begins', 'second ends']);
    assert.equal(bench.batches.ended(), undefined);
  });

  it('let the event loop run in between when they are large', async () => {
    const bench = served();
    bench.batches.run('a', LARGE, bench.work('large'));
    setImmediate(() => bench.done.push('another'));
    await bench.batches.ended();
    assert.deepEqual(bench.done, ['large begins', 'another', 'large ends']);
    assert.equal(bench.batches.ended(), undefined);
  });

  it('of one source are applied in order, those of others meanwhile', () => {
    const bench = served();
    bench.batches.run('a', LARGE, bench.work('large'));
    bench.batches.run('b', 1, bench.work('other'));
    bench.batches.run('a', 1, bench.work('next'));
    const expected = ['large begins', 'other begins', 'other ends', 'large ends', 'next begins', 'next ends'];
    assert.deepEqual(bench.done, expected);
  });

  it('are applied at once when they are finished', () => {
    const bench = served();
    bench.batches.run('a', LARGE, bench.work('a'));
    bench.batches.run('b', LARGE, bench.work('b'));
    bench.batches.finish();
    assert.deepEqual(bench.done, ['a begins', 'b begins', 'a ends', 'b ends']);
  });

  it('report an error once, and do not stop later ones', async () => {
    const bench = served();
    // biome-ignore lint/correctness/useYield: it fails before it could be interrupted
    function* failing(): Slices<void> {
      throw new Error('no space');
    }
    bench.batches.run('a', LARGE, failing());
    await bench.batches.ended();
    bench.batches.run('a', LARGE, bench.work('next'));
    await bench.batches.ended();
    assert.deepEqual(bench.errors, ['cannot apply changes of a: no space']);
    assert.deepEqual(bench.done, ['next begins', 'next ends']);
  });
});
