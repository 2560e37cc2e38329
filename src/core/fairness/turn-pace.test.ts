import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TurnPace } from './turn-pace.ts';

/** Begins what waits, in turns of the test. */
class Turns {
  now = 0;
  waiting = 0;
  begun = 0;
  readonly #due: (() => void)[] = [];
  readonly #pace = new TurnPace({
    intervalMs: 10,
    most: 8,
    now: () => this.now,
    resume: () => this.begin(),
    nextTurn: (run) => void this.#due.push(run),
  });

  begin(): void {
    while (this.waiting > 0 && this.#pace.admits) {
      this.waiting--;
      this.begun++;
      this.#pace.began();
    }
  }

  /** A turn that takes this long; returns how many begin at its end. */
  turn(milliseconds: number): number {
    this.now += milliseconds;
    const before = this.begun;
    for (const run of this.#due.splice(0)) run();
    return this.begun - before;
  }
}

describe('the pace of beginnings', () => {
  it('is one in each turn while the turns are short', () => {
    const turns = new Turns();
    turns.waiting = 5;
    turns.begin();
    assert.equal(turns.begun, 1);
    assert.deepEqual(
      [1, 2, 3, 4, 5].map(() => turns.turn(0.1)),
      [1, 1, 1, 1, 0],
    );
  });

  it('follows the length of the turn before, up to a limit', () => {
    const turns = new Turns();
    turns.waiting = 100;
    turns.begin();
    assert.deepEqual(
      [10, 35, 79, 5000, 20].map((milliseconds) => turns.turn(milliseconds)),
      [1, 3, 7, 8, 2],
    );
  });

  it('lets work that arrives later in a turn begin while some is left', () => {
    const turns = new Turns();
    turns.waiting = 1;
    turns.begin();
    assert.equal(turns.turn(30), 0);
    turns.waiting = 5;
    turns.begin();
    assert.equal(turns.begun, 4);
    assert.equal(turns.turn(0), 1);
  });
});
