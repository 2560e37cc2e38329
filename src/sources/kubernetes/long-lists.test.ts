/** Lists that are applied in slices: what is synced, and in which order things take effect. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { closeAll, follow, SERVICES, scripted, service } from './testing/scripted-source.ts';

afterEach(closeAll);

/** A source of which the test applies the lists of Services. */
async function following() {
  const server = await scripted();
  server.set(SERVICES, service('listed'));
  const lists: { apply(): void; fail(): void }[] = [];
  const followed = follow(server, {}, ({ kinds }, replace) => {
    if (kinds?.includes('Service') !== true) {
      replace();
      return undefined;
    }
    const applied = Promise.withResolvers<void>();
    const apply = (): void => {
      replace();
      applied.resolve();
    };
    lists.push({ apply, fail: () => applied.reject(new Error('a bug')) });
    return applied.promise;
  });
  await waitUntil(() => lists.length === 1);
  return { server, ...followed, applications: lists };
}

test('a source is synced when its last list is applied, and no change overtakes a list', async () => {
  const { server, applications: lists, isSynced, inForce } = await following();
  server.set(SERVICES, service('later'));
  server.remove(SERVICES, { name: 'listed', namespace: 'shop' });
  server.set('/api/v1/pods', { metadata: { name: 'pod', namespace: 'shop' }, spec: {} });
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([isSynced(), inForce().includes('Service/shop/later')], [false, false]);
  lists[0]?.apply();
  await waitUntil(isSynced);
  await waitUntil(() => inForce().includes('Service/shop/later') && !inForce().includes('Service/shop/listed'));
});

test('a list that cannot be applied is read again, and the source is synced after that', async () => {
  const { applications: lists, lines, isSynced, inForce } = await following();
  const failures = 6;
  for (let failed = 0; failed < failures; failed++) {
    lists[failed]?.fail();
    await waitUntil(() => lists.length === failed + 2);
  }
  assert.equal(isSynced(), false);
  assert.ok(lines.some((line) => /Service: cannot apply changes: a bug; it is listed again/.test(line)));
  lists[failures]?.apply();
  await waitUntil(isSynced);
  assert.deepEqual(inForce(), ['Service/shop/listed']);
});
