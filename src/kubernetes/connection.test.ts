/** A connection to an API server that goes away and comes back; attempts are counted by a clock that a test moves. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { fakeClock } from '../core/testing/fake-clock.ts';
import { waitUntil } from '../core/testing/wait-until.ts';
import { Connection } from './connection.ts';
import { followCollection } from './informer/shared-watch.ts';
import { cleanup, closeAll, gateway, PATH, scripted, TYPE } from './testing/followed-reflector.ts';
import { startRelay } from './testing/relay.ts';

afterEach(closeAll);

for (const away of [5, 20, 40]) {
  test(`a server that is unavailable for ${away} s costs one attempt a second for all watches, and is used at the next`, async () => {
    const server = await scripted();
    const relay = await startRelay(server.port);
    cleanup.push(() => relay.close());
    const clock = fakeClock();
    const access = server.access({ port: relay.port });
    const connection = new Connection({ access, clock, random: () => 0, userAgent: 'test' });
    cleanup.push(() => connection.close());
    const seen = new Map<string, string[]>();
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      server.set(PATH, gateway(name));
      const objects: string[] = [];
      seen.set(name, objects);
      const note = (text: string): void => void objects.push(text);
      const following = followCollection<string>(
        { connection, type: TYPE, name },
        {
          convert: ({ metadata }) => metadata.name,
          onList: () => note('list'),
          onChanges: () => note('change'),
          onFailure: () => {},
          onRecovered: () => {},
        },
      );
      cleanup.push(() => following.close());
    }
    await waitUntil(() => [...seen.values()].every((each) => each.length === 1), { step: () => clock.advance(0) });
    relay.cut();
    for (let second = 1; second <= away; second++) {
      await waitUntil(() => clock.pending().some((ms) => ms > 0 && ms <= 1000), { step: () => clock.advance(0) });
      await clock.advance(1000);
      await waitUntil(() => relay.refused() === second);
    }
    relay.restore();
    for (const name of seen.keys()) server.set(PATH, gateway(name, { changed: true }));
    await waitUntil(() => clock.pending().some((ms) => ms > 0 && ms <= 1000), { step: () => clock.advance(0) });
    await clock.advance(1000);
    // The watches resume: nothing is listed again.
    await waitUntil(() => [...seen.values()].every((each) => each.includes('change')));
    assert.deepEqual(new Set([...seen.values()].map((each) => each.join())), new Set(['list,change']));
    assert.equal(relay.refused(), away);
  });
}
