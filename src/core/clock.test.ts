import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from './clock.ts';

const NS_PER_MS = 1_000_000n;
const ATTEMPTS = 20;
const DELAY_MS = 3;

/** Waits until a millisecond is nearly over: the event loop, which counts whole ones, then takes it for a full one. */
function endOfMillisecond(): void {
  while (process.hrtime.bigint() % NS_PER_MS < 900_000n);
}

/** Keeps the event loop from sleeping until `isOver`. */
function stayBusy(isOver: () => boolean): void {
  if (!isOver()) setImmediate(stayBusy, isOver);
}

test('a timer of the system clock does not fire early, by that clock', async () => {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const fired = Promise.withResolvers<number>();
    let isOver = false;
    endOfMillisecond();
    const due = systemClock.now() + DELAY_MS;
    systemClock.setTimer(DELAY_MS, () => {
      isOver = true;
      fired.resolve(systemClock.now());
    });
    stayBusy(() => isOver);
    assert.ok((await fired.promise) >= due);
  }
});

test('a timer that is cancelled does not fire, also where it waits for the rest of its time', async () => {
  let fired = 0;
  endOfMillisecond();
  const timers = Array.from({ length: ATTEMPTS }, () => systemClock.setTimer(DELAY_MS, () => fired++));
  const due = systemClock.now() + DELAY_MS;
  await new Promise<void>((resolve) =>
    stayBusy(() => {
      const isNear = systemClock.now() >= due - 0.2;
      if (isNear) resolve();
      return isNear;
    }),
  );
  for (const timer of timers) timer.cancel();
  const before = fired;
  await new Promise<void>((resolve) => void setTimeout(resolve, 2 * DELAY_MS));
  assert.equal(fired, before);
});

test('a timer longer than those of Node.js does not fire at once', async () => {
  const long = systemClock.setTimer(2 ** 32, () => assert.fail('it fired'));
  await new Promise<void>((resolve) => void setTimeout(resolve, DELAY_MS));
  long.cancel();
});
