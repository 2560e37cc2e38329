import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fakeTime } from './testing/fake-time.ts';
import { CLOCK_CHECK_MS } from './wall-clock.ts';

const HOUR = 3_600_000;

describe('a timer of the wall clock', () => {
  it('fires once, when its time has passed and not before', () => {
    const { clock, pass, waiting } = fakeTime();
    let fired = 0;
    clock.setTimer(12 * HOUR, () => fired++);
    pass(12 * HOUR - 1);
    assert.equal(fired, 0);
    pass(1);
    assert.equal(fired, 1);
    pass(24 * HOUR);
    assert.equal(fired, 1);
    assert.equal(waiting(), 0);
  });

  it('fires within one check after the clock was set forward past its end', () => {
    const { clock, pass, set } = fakeTime();
    let fired = 0;
    clock.setTimer(12 * HOUR, () => fired++);
    pass(HOUR);
    set(25 * HOUR);
    pass(CLOCK_CHECK_MS);
    assert.equal(fired, 1);
  });

  it('fires after its time although the clock was set back', () => {
    const { clock, pass, set } = fakeTime();
    let fired = 0;
    clock.setTimer(HOUR, () => fired++);
    set(-48 * HOUR);
    pass(HOUR);
    assert.equal(fired, 1);
  });

  it('never fires once it was cancelled', () => {
    const { clock, pass, waiting } = fakeTime();
    let fired = 0;
    const timer = clock.setTimer(HOUR, () => fired++);
    pass(CLOCK_CHECK_MS * 3);
    timer.cancel();
    pass(2 * HOUR);
    assert.equal(fired, 0);
    assert.equal(waiting(), 0);
  });
});
