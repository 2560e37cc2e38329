import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SlicedWork, Slicer } from './slicer.ts';
import type { Slices } from './slices.ts';

/** A clock by which each step takes a slice. */
function slowClock(): () => number {
  let now = 0;
  return () => {
    now += 100;
    return now;
  };
}

function* steps(done: string[], count: number, fails = false): Slices<void> {
  for (let step = 1; step <= count; step++) {
    done.push(`step ${step}`);
    yield;
  }
  if (fails) throw new Error('cannot end');
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('sliced work', () => {
  it('lets the event loop run between its slices', async () => {
    const done: string[] = [];
    setImmediate(() => done.push('another'));
    const work = new SlicedWork(steps(done, 3), new Slicer(slowClock()));
    await work.ended;
    assert.deepEqual(done, ['step 1', 'another', 'step 2', 'step 3']);
  });

  it('does the rest at once when it is finished', async () => {
    const done: string[] = [];
    const work = new SlicedWork(steps(done, 3), new Slicer(slowClock()));
    work.finish();
    assert.deepEqual(done, ['step 1', 'step 2', 'step 3']);
    await work.ended;
    await nextTurn();
    assert.equal(done.length, 3);
  });

  it('rejects with its error after a pause and after finish', async () => {
    const alone = new SlicedWork(steps([], 2, true), new Slicer(slowClock()));
    await assert.rejects(alone.ended, /cannot end/);
    const finished = new SlicedWork(steps([], 2, true), new Slicer(slowClock()));
    finished.finish();
    await assert.rejects(finished.ended, /cannot end/);
  });

  it('counts its time once when it is finished during a pause', async () => {
    let now = 0;
    const slicer = new Slicer(() => now);
    let worked = 0;
    function* work(): Slices<void> {
      now += 100;
      yield;
      now += 20;
      worked = slicer.worked;
    }
    const sliced = new SlicedWork(work(), slicer);
    now += 1000;
    sliced.finish();
    assert.equal(worked, 120);
    await sliced.ended;
  });

  it('may be finished by itself, which does nothing', async () => {
    const done: string[] = [];
    function* reentrant(): Slices<void> {
      yield* steps(done, 2);
      work.finish();
    }
    const work = new SlicedWork(reentrant(), new Slicer(slowClock()));
    await work.ended;
    assert.deepEqual(done, ['step 1', 'step 2']);
  });
});
