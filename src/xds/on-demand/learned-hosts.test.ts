/** What proxies learn from others: few hosts, in use, and soon for those that are connected. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Memos } from '../../core/memo.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import * as fc from '../../core/testing/properties.ts';
import { NameSets } from '../protocol/index.ts';
import { FORGET_MS, LearnedHosts, MAX_SCOPES } from './learned-hosts.ts';

const MANY = 100_000;
const SCOPE = 'shop/';

function setUp() {
  const clock = fakeClock();
  const names = new NameSets(new Memos());
  const learned = new LearnedHosts(names, clock);
  const sent = (scope = SCOPE): readonly string[] => [...learned.of(scope, MANY).names].sort();
  const connect = (...used: readonly string[]) => {
    const proxy = { used: names.of(used), woken: 0, wake: () => void proxy.woken++ };
    const leave = learned.follow(SCOPE, proxy);
    learned.learn(SCOPE, used, MANY);
    return { proxy, leave };
  };
  return { clock, learned, sent, connect };
}

test('the hosts that are learned are few', () => {
  const { learned } = setUp();
  const many = Array.from({ length: 1000 }, (_, at) => `80/host-${at}`);
  learned.learn('small', many, 50);
  learned.learn('large', many, MANY);
  assert.deepEqual([learned.of('small', 50).size, learned.of('large', MANY).size], [20, 500]);
  // Hosts of a checkpoint that the mesh is too small for.
  learned.add([{ scope: 'added', hosts: many.map((name) => ({ name, unusedMs: 0 })) }]);
  assert.deepEqual([learned.of('added', 50).size, learned.of('added', MANY).size], [20, 500]);
  for (let scope = 0; scope < MAX_SCOPES; scope++) learned.learn(`scope ${scope}`, ['80/a'], 1);
  assert.equal(learned.of('small', 50).size, 0);
});

test('a namespace with many Sidecars does not displace what others have learned', () => {
  const { learned, sent } = setUp();
  learned.learn('other/', ['80/b'], MANY);
  for (let at = 0; at < 2 * MAX_SCOPES; at++) {
    const scope = `many/${at}`;
    learned.follow(scope, { used: new NameSets(new Memos()).of(['80/a']), wake: () => {} });
    learned.learn(scope, ['80/a'], MANY);
  }
  assert.deepEqual(sent('other/'), ['80/b']);
});

test('what nobody has used for a day is not saved', async () => {
  const { clock, learned, connect } = setUp();
  connect('80/a').leave();
  const { leave } = connect('80/b');
  await clock.advance(FORGET_MS);
  leave();
  assert.deepEqual([...learned.scopes()], [{ scope: SCOPE, hosts: [{ name: '80/b', unusedMs: 0 }] }]);
});

test('connected proxies are told once about hosts that are learned within a second', async () => {
  const { clock, learned, connect } = setUp();
  const { proxy, leave } = connect();
  for (let at = 0; at < 10; at++) learned.learn(SCOPE, [`80/host-${at}`], MANY);
  learned.learn('other/', ['80/elsewhere'], MANY);
  assert.equal(proxy.woken, 0);
  await clock.advance(1_000);
  await setImmediate();
  assert.equal(proxy.woken, 1);
  learned.learn(SCOPE, ['80/host-1'], MANY);
  await clock.advance(10_000);
  assert.equal(proxy.woken, 1);
  leave();
  learned.learn(SCOPE, ['80/host-11'], MANY);
  await clock.advance(10_000);
  assert.equal(proxy.woken, 1);
});

test('a host is in use while a proxy is connected that has asked for it, and for a day after that', async () => {
  const { clock, sent, connect } = setUp();
  const { leave } = connect('80/a');
  connect('80/b').leave();
  await clock.advance(3 * FORGET_MS);
  assert.deepEqual(sent(), ['80/a']);
  leave();
  await clock.advance(FORGET_MS - 1);
  assert.deepEqual(sent(), ['80/a']);
  await clock.advance(120_000);
  assert.deepEqual(sent(), []);
});

test('what was learned elsewhere is added with its age', async () => {
  const { clock, learned, sent } = setUp();
  learned.add([
    {
      scope: SCOPE,
      hosts: [
        { name: '80/old', unusedMs: FORGET_MS },
        { name: '80/older', unusedMs: FORGET_MS / 2 },
        { name: '80/new', unusedMs: 0 },
      ],
    },
  ]);
  assert.deepEqual(sent(), ['80/new', '80/older']);
  await clock.advance(FORGET_MS / 2 + 60_000);
  assert.deepEqual(sent(), ['80/new']);
});

const host = fc.constantFrom('80/a', '80/b', '80/c');
const step = fc.oneof(
  fc.record({ kind: fc.constant('connect' as const), used: fc.array(host, { maxLength: 2 }) }),
  fc.record({ kind: fc.constant('leave' as const), which: fc.nat(3) }),
  fc.record({ kind: fc.constant('wait' as const), hours: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ kind: fc.constant('copy' as const) }),
);

test('property: a host is sent exactly if it was used within a day, also after a restart from a checkpoint', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      let world = setUp();
      let proxies: { readonly used: readonly string[]; readonly leave: () => void }[] = [];
      let now = 0;
      const usedAt = new Map<string, number>();
      for (const each of steps) {
        if (each.kind === 'connect') {
          proxies.push({ used: each.used, leave: world.connect(...each.used).leave });
        } else if (each.kind === 'leave') {
          const [gone] = proxies.splice(each.which, 1);
          gone?.leave();
        } else if (each.kind === 'wait') {
          // Hosts are forgotten at most a minute late.
          now += each.hours * 3_600_000 + 60_001;
          await world.clock.advance(each.hours * 3_600_000 + 60_001);
        } else {
          const saved = [...world.learned.scopes()];
          world = setUp();
          proxies = [];
          world.learned.add(saved);
          for (const [name, at] of usedAt) if (now - at >= FORGET_MS) usedAt.delete(name);
        }
        if (each.kind === 'connect') for (const name of each.used) usedAt.set(name, now);
        for (const { used } of proxies) for (const name of used) usedAt.set(name, now);
        const expected = [...usedAt].filter(([, at]) => now - at <= FORGET_MS).map(([name]) => name);
        assert.deepEqual(world.sent(), expected.sort());
      }
    }),
  );
});
