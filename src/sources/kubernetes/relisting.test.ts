import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Relisting } from './relisting.ts';
import { closeAll, follow, pathOf, ROUTES, route, scripted } from './testing/scripted-source.ts';

afterEach(closeAll);

describe('a collection whose changes cannot be taken over', () => {
  test('is listed again later with each failure, and soon after a calm time', async () => {
    const clock = fakeClock();
    let lists = 0;
    const relisting = new Relisting(
      clock,
      () => 0,
      () => lists++,
    );
    const waits: number[] = [];
    for (let failure = 0; failure < 12; failure++) {
      relisting.failed();
      relisting.failed();
      assert.equal(clock.pending().length, 1);
      const [wait = 0] = clock.pending();
      waits.push(wait);
      await clock.advance(wait);
    }
    assert.equal(lists, 12);
    assert.deepEqual(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000]);
    await clock.advance(120_001);
    relisting.failed();
    assert.deepEqual(clock.pending(), [100]);
    relisting.cancel();
    assert.deepEqual(clock.pending(), []);
  });

  test('is not listed at once for each change that fails, and what it had stays in force', async (context) => {
    const clock = fakeClock();
    const server = await scripted(ROUTES);
    const { store, isSynced } = follow(server, { clock });
    await waitUntil(isSynced);
    const lists = () =>
      server.requests.filter(({ path, query }) => path === pathOf(ROUTES) && query.has('sendInitialEvents')).length;
    const before = lists();
    let failures = 0;
    const { apply } = store;
    context.mock.method(store, 'apply', (...args: Parameters<typeof apply>) => {
      const [, events] = args;
      if (!events.some((event) => event.type === 'set' && event.resource.meta.name === 'bad')) {
        return apply.apply(store, args);
      }
      failures++;
      throw new Error('cannot be taken over');
    });
    for (let version = 0; version < 5; version++) {
      server.set(pathOf(ROUTES), route('bad', `host-${version}`));
      await waitUntil(() => failures === version + 1);
    }
    server.set(pathOf(ROUTES), route('good'));
    await waitUntil(() => store.get('VirtualService/shop/good') !== undefined);
    assert.equal(lists(), before);
    await clock.advance(1000);
    await waitUntil(() => lists() === before + 1);
  });
});
