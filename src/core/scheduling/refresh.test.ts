import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../errors.ts';
import { fakeTime } from '../testing/fake-time.ts';
import { Refresh } from './refresh.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a value that was outdated while it was loaded is not used', async () => {
  const { clock } = fakeTime();
  const loads: ((value: string) => void)[] = [];
  const values: string[] = [];
  const refresh = new Refresh<string>({
    load: async () => ({ value: await new Promise<string>((resolve) => loads.push(resolve)), refreshMs: 1000 }),
    onValue: (value) => values.push(value),
    clock,
  });
  const [first, second] = [refresh.start(), refresh.start()];
  loads[1]?.('new');
  await second;
  loads[0]?.('old');
  await first;
  assert.deepEqual(values, ['new']);
  await refresh.close();
});

test('each failure is counted, each new problem is reported, and the last good value stays', async () => {
  const { clock, pass } = fakeTime();
  const [problems, failures]: [string[], string[]] = [[], []];
  let problem = '';
  const refresh = new Refresh<string>({
    load: async () => {
      if (problem !== '') throw new CtlError('unavailable', problem);
      return { value: 'good', refreshMs: 10_000 };
    },
    onProblem: ({ message }) => problems.push(message),
    onFailure: ({ message }) => failures.push(message),
    clock,
    retryMs: () => 1000,
  });
  await refresh.start();
  for (const [next, ms] of [
    ['away', 10_000],
    ['away', 1000],
    ['still away', 1000],
  ] as const) {
    problem = next;
    pass(ms);
    await turn();
  }
  assert.deepEqual(failures, ['away', 'away', 'still away']);
  assert.deepEqual(problems, ['away', 'still away']);
  assert.equal(refresh.value, 'good');
  await refresh.close();
});
