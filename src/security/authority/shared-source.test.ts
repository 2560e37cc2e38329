/** Several replicas with one store of the root: who creates, replaces and restores it, and what the others do. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import type { AuthorityState, AuthorityStore } from '../types.ts';
import type { RootSet, SigningMaterial } from './root-source.ts';
import { createRoot, type Root } from './self-signed-root.ts';
import { openSelfSigned, type RotatedSource } from './self-signed-source.ts';
import { fakeClock } from './testing/fixtures.ts';

const HOUR = 3_600_000;

/** A store that replicas share, in memory; each sees its changes at once. */
function sharedStore() {
  let version = 0;
  let state: AuthorityState | undefined;
  let failure: Error | undefined;
  let loads = 0;
  const watchers = new Set<() => void>();
  const put = (next: AuthorityState | undefined): void => {
    state = next;
    version++;
    for (const notify of watchers) notify();
  };
  const replica = (): AuthorityStore => {
    let seen: number | undefined;
    let last: AuthorityState | undefined;
    return {
      async load({ restore = false } = {}) {
        loads++;
        if (failure !== undefined) throw failure;
        seen = version;
        if (state === undefined && restore && last !== undefined) put(last);
        seen = version;
        last = state ?? last;
        return last;
      },
      async save(next) {
        if (failure !== undefined) throw failure;
        if (seen !== version) throw new CtlError('already_exists', 'was written by another replica first');
        if (JSON.stringify(next) === JSON.stringify(state)) return;
        last = next;
        put(next);
        seen = version;
      },
      shared: {
        lastGood: () => last,
        watch(onChange) {
          watchers.add(onChange);
          onChange();
          return async () => void watchers.delete(onChange);
        },
      },
    };
  };
  return {
    replica,
    /** As an operator does. */
    put,
    get state() {
      return state;
    },
    get loads() {
      return loads;
    },
    /** The store can be used again, and nothing has changed in it. */
    recover() {
      failure = undefined;
    },
    fail(error: Error | undefined) {
      failure = error;
      if (error === undefined) for (const notify of watchers) notify();
    },
  };
}

function replicas() {
  const store = sharedStore();
  let making = 0;
  const time = fakeClock(undefined, () => making > 0);
  const make = async (now: number): Promise<Root> => {
    making++;
    try {
      return await createRoot({
        trustDomain: 'cluster.local',
        rsaBits: 512,
        lifetimeSeconds: (100 * HOUR) / 1000,
        now,
        randomBytes,
      });
    } finally {
      making--;
    }
  };
  const start = async (earlier?: AuthorityState) => {
    const problems: string[] = [];
    const rotations: string[] = [];
    const keys: string[] = [];
    let recovered = 0;
    const opened = await openSelfSigned({
      store: store.replica(),
      earlier: async () => earlier,
      newRoot: make,
      rotation: { intervalMs: HOUR, gracePercentile: 20 },
      jitter: true,
      clock: time.clock,
      random: () => 0.5,
      events: {
        changed: (_roots: RootSet, material?: SigningMaterial) => void (material && keys.push(material.key)),
        problem: (error) => void problems.push(String(error)),
        recovered: () => recovered++,
      },
      log: () => {},
      rotated: (message) => void rotations.push(message),
    });
    keys.push(opened.material.key);
    let term = new AbortController();
    const source: RotatedSource = opened.source;
    return {
      source,
      problems,
      rotations,
      recovered: () => recovered,
      key: () => keys.at(-1),
      bundle: () => source.roots().bundle,
      lead: () => {
        term = new AbortController();
        source.rotate(term.signal);
      },
      follow: () => term.abort(),
    };
  };
  return { store, time, start, make };
}

test('replicas that start together have one root', async () => {
  const { start } = replicas();
  const all = await Promise.all([start(), start(), start()]);
  const [first] = all.map(({ bundle }) => bundle());
  for (const each of all) assert.deepEqual(each.bundle(), first);
  assert.equal(new Set(all.map(({ key }) => key())).size, 1);
});

test('a rotation is made by the leader alone, and followed by all', async () => {
  const { start, time } = replicas();
  const [leader, follower] = [await start(), await start()];
  leader.lead();
  const [first] = leader.bundle();
  await time.advance(81 * HOUR);
  assert.deepEqual([leader.rotations.length, follower.rotations.length], [1, 0]);
  assert.equal(follower.bundle().length, 2);
  assert.equal(follower.key(), leader.key());
  await time.advance(2 * HOUR);
  const [second, former] = follower.bundle();
  assert.equal(former, first);
  assert.notEqual(second, first);
  assert.deepEqual(leader.bundle(), follower.bundle());
  assert.equal(follower.key(), leader.key(), 'the follower signs with the new key');
  assert.deepEqual([...leader.problems, ...follower.problems], []);
});

test('without a leader nothing is replaced, and a new leader continues a rotation', async () => {
  const { start, time } = replicas();
  const [one, two] = [await start(), await start()];
  await time.advance(81 * HOUR);
  assert.equal(one.bundle().length, 1);
  one.lead();
  await time.advance(0.6 * HOUR);
  assert.equal(two.bundle().length, 2, 'announced');
  one.follow();
  await time.advance(3 * HOUR);
  assert.equal(two.rotations.length, 0);
  two.lead();
  await time.advance(HOUR);
  assert.deepEqual(two.rotations, ['the next root certificate now signs certificates']);
  assert.equal(one.key(), two.key());
});

test('two replicas that both take themselves for the leader make one next root', async () => {
  const { start, time } = replicas();
  const [one, two] = [await start(), await start()];
  one.lead();
  two.lead();
  await time.advance(85 * HOUR);
  assert.deepEqual(one.bundle(), two.bundle());
  assert.equal(one.bundle().length, 2);
  assert.equal(one.key(), two.key());
  assert.deepEqual([...one.problems, ...two.problems], []);
});

test('a root that an operator puts into the store signs at all replicas, and the one before stays trusted', async () => {
  const { start, time, store, make } = replicas();
  const [leader, follower] = [await start(), await start()];
  leader.lead();
  const [first = ''] = leader.bundle();
  const root = await make(time.clock.now());
  store.put({ ...root, former: [] });
  await time.advance(1);
  assert.deepEqual(follower.bundle(), [root.certificate, first]);
  assert.deepEqual(leader.bundle(), [root.certificate, first]);
  assert.deepEqual([leader.key(), follower.key()], [root.key, root.key]);
  assert.deepEqual(store.state?.former, [first], 'stored by the leader, for replicas that start later');
  store.put({ ...root, former: [] });
  await time.advance(1);
  assert.deepEqual(follower.bundle(), [root.certificate], 'an operator can end the trust in it');
});

test('a store that cannot be read leaves key and roots in force, and says so once', async () => {
  const { start, time, store } = replicas();
  const [leader, follower] = [await start(), await start()];
  leader.lead();
  const [bundle, key] = [follower.bundle(), follower.key()];
  store.fail(new CtlError('failed_precondition', 'damaged'));
  store.put(store.state);
  await time.advance(1);
  assert.match(follower.problems.join(), /^CtlError: damaged$/);
  const material = await follower.source.material();
  assert.deepEqual([material.key, follower.bundle()], [key, bundle]);
  store.fail(undefined);
  await time.advance(1);
  assert.equal(follower.recovered(), 1);
});

test('a change that could not be read is read soon after, without another change', async () => {
  const { start, time, store, make } = replicas();
  const [leader, follower] = [await start(), await start()];
  leader.lead();
  const root = await make(time.clock.now());
  store.fail(new CtlError('unavailable', 'no answer'));
  store.put({ ...root, former: [] });
  await time.advance(1);
  store.recover();
  await time.advance(10_000);
  assert.deepEqual([leader.key(), follower.key()], [root.key, root.key]);
  assert.deepEqual([leader.recovered(), follower.recovered()], [1, 1]);
});

test('many changes of the store are read together', async () => {
  const { start, time, store } = replicas();
  const replica = await start();
  await time.advance(1);
  const before = store.loads;
  for (let change = 0; change < 100; change++) store.put(store.state);
  await time.advance(1);
  assert.ok(store.loads - before <= 2, `${store.loads - before} reads`);
  await replica.source.close();
});

test('a next root is distributed for an interval, even when the clock that announced it was slow', async () => {
  const { start, time, store, make } = replicas();
  const [slow, leader] = [await start(), await start()];
  await time.advance(90 * HOUR);
  const next = await make(time.clock.now());
  assert.ok(store.state !== undefined && slow !== leader);
  store.put({ ...store.state, next: { ...next, announcedAt: time.clock.now() - 3 * HOUR } });
  leader.lead();
  await time.advance(0.9 * HOUR);
  assert.deepEqual(leader.rotations, []);
  await time.advance(0.2 * HOUR);
  assert.deepEqual(leader.rotations, ['the next root certificate now signs certificates']);
  assert.equal(slow.key(), next.key);
});

test('an earlier root that is not used is reported', async () => {
  const { start, time, make } = replicas();
  const root = await make(time.clock.now());
  const one = await start();
  const two = await start({ ...root, former: [] });
  assert.deepEqual(two.bundle(), one.bundle());
  assert.match(two.problems.join(), /^CtlError: .*another root certificate/);
  const three = await start(await (async () => ({ key: '', certificate: one.bundle()[0] ?? '', former: [] }))());
  assert.deepEqual(three.problems, []);
});

test('a leader writes a store again that was deleted, even when it was elected after that', async () => {
  const { start, time, store } = replicas();
  const [one, two] = [await start(), await start()];
  one.lead();
  const before = store.state;
  store.put(undefined);
  await time.advance(1);
  assert.deepEqual(store.state, before);
  one.follow();
  store.put(undefined);
  await time.advance(1);
  assert.equal(store.state, undefined);
  two.lead();
  await time.advance(1);
  assert.deepEqual(store.state, before);
  assert.deepEqual(one.bundle(), [before?.certificate]);
});

test('the root of an earlier store becomes the first one of an empty store', async () => {
  const { start, time, make, store } = replicas();
  const [root, other] = [await make(time.clock.now()), await make(time.clock.now())];
  const one = await start({ ...root, former: [] });
  const two = await start({ ...other, former: [] });
  assert.deepEqual([one.bundle(), two.bundle()], [[root.certificate], [root.certificate]]);
  assert.deepEqual(store.state, { ...root, former: [] });
});
