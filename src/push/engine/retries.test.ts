import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { MAX_RETRY_AFTER_CHANGE_MS, MAX_RETRY_MS, Retries } from './retries.ts';

const ERROR = new CtlError('internal', 'cannot');

/** Retries under a clock that the test moves. */
function underClock(random = () => 0) {
  let now = 0;
  let timers: { at: number; run: () => void }[] = [];
  const due: string[] = [];
  const retries = new Retries({
    now: () => now,
    later: (ms, run) => {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return {
        cancel: () => {
          timers = timers.filter((each) => each !== timer);
        },
      };
    },
    random,
    onDue: (key) => due.push(key),
  });
  const pass = (ms: number): void => {
    now += ms;
    for (const timer of timers.filter(({ at }) => at <= now)) {
      timers = timers.filter((each) => each !== timer);
      timer.run();
    }
  };
  /** Fails and waits until it is tried again; the delay. */
  const attempt = (key: string): number => {
    const { retryInMs } = retries.failed(key, ERROR);
    assert.equal(retries.blocked(key), ERROR);
    pass(retryInMs - 1);
    assert.equal(due.length, 0);
    pass(1);
    assert.deepEqual(due.splice(0), [key]);
    assert.equal(retries.blocked(key), undefined);
    return retryInMs;
  };
  return { retries, attempt, pass, due };
}

describe('retries of views', () => {
  it('have growing delays up to a limit while they fail', () => {
    const { attempt } = underClock();
    const delays = Array.from({ length: 14 }, () => attempt('view'));
    assert.deepEqual(delays.slice(0, 4), [250, 500, 1000, 2000]);
    assert.deepEqual(delays.slice(-3), [MAX_RETRY_MS, MAX_RETRY_MS, MAX_RETRY_MS]);
  });

  it('are spread at random', () => {
    const { retries } = underClock(() => 0.5);
    assert.equal(retries.failed('view', ERROR).retryInMs, 225);
  });

  it('start over after a success', () => {
    const { retries, attempt } = underClock();
    attempt('view');
    attempt('view');
    assert.equal(retries.succeeded('view'), 2);
    assert.equal(retries.succeeded('view'), 0);
    assert.ok(!retries.isFailing('view'));
    assert.equal(attempt('view'), 250);
  });

  it('come sooner when what the view depends on has changed, but not with each change', () => {
    const { retries, attempt, pass, due } = underClock();
    for (let times = 0; times < 13; times++) attempt('view');
    retries.failed('view', ERROR);
    for (let seconds = 0; seconds < MAX_RETRY_AFTER_CHANGE_MS / 1000; seconds++) {
      retries.changed('view');
      assert.deepEqual(due, []);
      pass(1000);
    }
    assert.deepEqual(due, ['view']);
  });

  it('are listed with the error, the time since, and the time of the next attempt', () => {
    const { retries, attempt, pass } = underClock();
    attempt('view');
    retries.failed('view', ERROR);
    pass(100);
    assert.deepEqual(retries.all(), [
      { view: 'view', failures: 2, error: 'cannot', failingForMs: 350, retryInMs: 400 },
    ]);
  });

  it('are dropped beyond a limit for views that nobody needs any more', () => {
    const { retries, pass } = underClock();
    for (let view = 0; view < 5000; view++) {
      retries.failed(`view ${view}`, ERROR);
      pass(1000);
    }
    assert.ok(retries.all().length <= 1025);
  });
});
