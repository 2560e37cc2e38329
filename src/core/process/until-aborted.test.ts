import { test } from 'node:test';
import { untilAborted } from './until-aborted.ts';

test('a signal that is aborted later, or was before the call, ends the wait', { timeout: 120_000 }, async () => {
  const controller = new AbortController();
  const waiting = untilAborted(controller.signal);
  controller.abort();
  await waiting;
  await untilAborted(controller.signal);
});
