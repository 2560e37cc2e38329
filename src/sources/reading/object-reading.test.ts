import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ObjectReading } from './object-reading.ts';
import { ReadingShares } from './reading-shares.ts';

/** Reads objects that take what they say, with turns of the event loop that the test makes. */
class Loop {
  #now = 0;
  #soon: (() => void)[] = [];
  #timers: { readonly at: number; readonly run: () => void }[] = [];
  /** What was read, and `|` for each report. */
  readonly read: string[] = [];
  readonly reading: ObjectReading;
  readonly #report = (): void => void this.read.push('|');

  constructor() {
    const now = (): number => this.#now;
    const setTimer = (ms: number, run: () => void) => {
      const timer = { at: this.#now + ms, run };
      this.#timers.push(timer);
      const cancel = (): void => {
        this.#timers = this.#timers.filter((each) => each !== timer);
      };
      return { cancel };
    };
    const soon = (run: () => void): void => void this.#soon.push(run);
    this.reading = new ObjectReading({ clock: { now, setTimer }, shares: new ReadingShares(now), soon });
  }

  add(cost: number, ...ids: readonly string[]): void {
    const read = (id: string) => () => {
      this.#now += cost;
      this.read.push(id);
      return 0;
    };
    const task = (id: string) => ({ id, namespace: id.split('/')[0] ?? '', read: read(id), report: this.#report });
    this.reading.add(ids.map(task));
  }

  /** What is read in one turn of the event loop. */
  turn(): string {
    this.read.length = 0;
    const [due, soon] = [this.#timers.filter(({ at }) => at <= this.#now), this.#soon];
    this.#timers = this.#timers.filter(({ at }) => at > this.#now);
    this.#soon = [];
    for (const { run } of due) run();
    for (const run of soon) run();
    return this.read.join(' ');
  }

  /** Waits for the next timer, when nothing else is to be done. */
  wait(): void {
    if (this.#soon.length > 0) return;
    this.#now = Math.max(this.#now, Math.min(...this.#timers.map(({ at }) => at)));
  }

  get isIdle(): boolean {
    return this.#timers.length === 0 && this.#soon.length === 0;
  }
}

describe('reading objects', () => {
  it('reads little at once, and reports it together', () => {
    const loop = new Loop();
    loop.add(1, 'a/1', 'b/1', 'a/2');
    assert.equal(loop.read.join(' '), 'a/1 b/1 a/2 |');
    loop.turn();
    assert.ok(loop.isIdle);
  });

  it('reads much in slices of 10 ms, between which the event loop turns', () => {
    const loop = new Loop();
    loop.add(4, ...Array.from({ length: 7 }, (_, index) => `a/${index}`));
    assert.equal(loop.read.join(' '), 'a/0 a/1 a/2 |');
    assert.equal(loop.turn(), 'a/3 a/4 a/5 |');
    assert.equal(loop.turn(), 'a/6 |');
    loop.turn();
    assert.ok(loop.isIdle);
  });

  it('reads no more at once in the turn in which a slice was used up', () => {
    const loop = new Loop();
    loop.add(12, 'a/1');
    loop.add(1, 'b/1');
    assert.equal(loop.read.join(' '), 'a/1 |');
    assert.equal(loop.turn(), 'b/1 |');
  });

  it('reads the object of another namespace next, while a namespace floods', () => {
    const loop = new Loop();
    loop.add(100, ...Array.from({ length: 20 }, (_, index) => `flood/${index}`));
    assert.equal(loop.read.join(' '), 'flood/0 |');
    loop.turn();
    loop.add(1, 'shop/web');
    assert.equal(loop.read.join(' '), 'shop/web |');
    const rest: string[] = [];
    while (!loop.isIdle) {
      loop.wait();
      rest.push(...loop.turn().split(' '));
    }
    assert.equal(rest.filter((id) => id.startsWith('flood/')).length, 19);
  });

  it('reads nothing after it was closed', () => {
    const loop = new Loop();
    loop.add(20, 'a/1', 'a/2');
    loop.reading.close();
    assert.equal(loop.turn(), '');
    loop.add(1, 'b/1');
    assert.equal(loop.turn(), '');
  });
});
