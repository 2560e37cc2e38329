/** Timers of Node.js that expire when a test says so, for code that has no clock as a parameter. */
import type { TestContext } from 'node:test';

/** Mocks `setTimeout` and the times of `Date` and `performance`, which only `t.mock.timers.tick` moves. */
export function mockTimers(t: Pick<TestContext, 'mock'>): void {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  t.mock.method(performance, 'now', () => Date.now());
}
