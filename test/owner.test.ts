import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createScope } from './harness/owner.ts';

test('a hook that does not end fails, and the other hooks run', async () => {
  const scope = createScope(10);
  const ran: string[] = [];
  scope.after(() => void ran.push('first'));
  scope.after(() => new Promise<void>(() => undefined));
  scope.after(() => void ran.push('last'));
  await assert.rejects(scope.close(), (error: AggregateError) => /did not end/.test(String(error.errors[0])));
  assert.deepEqual(ran, ['last', 'first']);
});
