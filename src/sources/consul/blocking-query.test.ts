import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followRegistry, instance } from './testing/followed-registry.ts';
import type { Fault } from './testing/in-memory-call.ts';
import { StandInRegistry } from './testing/stand-in-registry.ts';

test('when one query loses its connection, the others do not wait on the index of before', async () => {
  const registry = new StandInRegistry();
  registry.register(instance('web', 'web-1'));
  let isLost = false;
  const fault = (path: string): Fault | undefined => (isLost && path === '/v1/catalog/services' ? 'closed' : undefined);
  const { source, clock, asked } = followRegistry(registry, { fault });
  await clock.advance(10_000);
  isLost = true;
  const before = asked.length;
  registry.register(instance('web', 'web-9'));
  await clock.advance(5000);
  const states = asked.slice(before).filter((path) => path.startsWith('/v1/health/state/critical'));
  assert.deepEqual(
    states.map((path) => path.includes('index=')),
    [false, true],
    'one request without an index, and not one for each failure',
  );
  await source.close();
});
