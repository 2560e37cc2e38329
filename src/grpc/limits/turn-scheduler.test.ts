import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TimeShares } from '../../core/fairness/time-shares.ts';
import { type Task, TurnScheduler } from './turn-scheduler.ts';

/** A scheduler with a clock and turns of the test, and what was done in order. */
class Turns {
  now = 0;
  readonly done: string[] = [];
  readonly shares = new TimeShares();
  readonly #due: (() => void)[] = [];
  readonly scheduler = new TurnScheduler({
    now: () => this.now,
    later: (run) => void this.#due.push(run),
    shares: this.shares,
  });

  /** Work of this many steps of 1 ms. */
  task(caller: string, steps = 1): Task {
    let left = steps;
    return {
      caller,
      proceed: () => {
        this.done.push(caller);
        while (left > 0) {
          left--;
          this.now++;
          if (this.scheduler.late()) break;
        }
        return left === 0;
      },
    };
  }

  next(): readonly string[] {
    this.done.length = 0;
    for (const run of this.#due.splice(0)) run();
    return [...this.done];
  }

  get idle(): boolean {
    return this.#due.length === 0;
  }
}

describe('the turns of the event loop', () => {
  it('have time for what arrives, and the rest is done later, of those first that have used less time', () => {
    const turns = new Turns();
    turns.scheduler.start(turns.task('first'));
    for (let index = 0; index < 30; index++) turns.scheduler.start(turns.task('many'));
    turns.scheduler.start(turns.task('one'));
    assert.equal(turns.done.length, 20);
    assert.deepEqual(turns.next().slice(0, 2), ['one', 'many']);
    while (!turns.idle) turns.next();
    assert.deepEqual(turns.shares.usedBy('many'), 30);
  });

  it('have more time for one caller while nobody else waits', () => {
    const turns = new Turns();
    for (let index = 0; index < 50; index++) turns.scheduler.start(turns.task('many'));
    assert.equal(turns.done.length, 40);
    assert.equal(turns.scheduler.isYoung('one'), false, 'another one has its turn');
    turns.scheduler.start(turns.task('one'));
    assert.equal(turns.done.length, 40);
    assert.equal(turns.next()[0], 'one');
  });

  it('are shared in slices: long work of one caller is interrupted', () => {
    const turns = new Turns();
    const long = turns.task('long', 100);
    turns.scheduler.start(long);
    assert.equal(turns.now, 2, 'a slice');
    turns.scheduler.start(turns.task('other', 3));
    turns.next();
    turns.next();
    assert.ok(turns.now < 60);
    assert.deepEqual(turns.next()[0], 'long');
    while (!turns.idle) turns.next();
    assert.equal(turns.shares.usedBy('long'), 100);
  });

  it('count time that work takes in later turns, where it cannot wait', () => {
    const turns = new Turns();
    let begun = 0;
    for (let index = 0; index < 40; index++)
      turns.scheduler.start({
        caller: 'many',
        proceed: () => {
          begun++;
          turns.scheduler.spend('many', 2);
          return true;
        },
      });
    assert.equal(begun, 20);
    turns.next();
    assert.equal(begun, 30);
    while (!turns.idle) turns.next();
    assert.equal(begun, 40);
  });

  it('count time that was spent otherwise', () => {
    const turns = new Turns();
    assert.equal(turns.scheduler.isYoung('a'), true);
    turns.scheduler.spend('a', 45);
    assert.equal(turns.scheduler.isYoung('a'), false);
    turns.scheduler.start(turns.task('a'));
    turns.scheduler.start(turns.task('b'));
    assert.deepEqual(turns.done, []);
    assert.deepEqual(turns.next(), ['b', 'a']);
  });

  it('have nothing of work that was given up, and wait once for work', () => {
    const turns = new Turns();
    turns.scheduler.spend('a', 25);
    const [given, kept] = [turns.task('a'), turns.task('a')];
    for (const task of [given, kept, kept]) turns.scheduler.enqueue(task);
    turns.scheduler.forget(given);
    turns.scheduler.forget(given);
    assert.deepEqual(turns.next(), ['a']);
    assert.deepEqual(turns.next(), []);
    assert.equal(turns.idle, true);
  });
});
