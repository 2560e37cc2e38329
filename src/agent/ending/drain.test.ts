import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getScope, setLevel } from '../../logging/index.ts';
import { connectionsIn } from './connections.ts';
import { type DrainDeps, drainAndEnd } from './drain.ts';

setLevel('default', 'none');

/** A fake clock, and an Envoy that ends on the signals in `obeys` and has these connections when it is asked. */
function world(obeys: readonly string[], counts: number[] = []) {
  const events: string[] = [];
  const ended = Promise.withResolvers<void>();
  const forced = Promise.withResolvers<void>();
  const timers: { readonly ms: number; readonly fire: () => void }[] = [];
  const deps: DrainDeps = {
    discourage: async () => void events.push('discouraged'),
    closeListeners: async () => void events.push('listeners closed'),
    connections: async () => counts.shift() ?? Promise.reject(new Error('no answer')),
    envoyEnded: ended.promise,
    forced: forced.promise,
    signal(signal) {
      events.push(signal);
      if (obeys.includes(signal)) ended.resolve();
    },
    sleep: (ms, signal) =>
      new Promise<void>((resolve) => {
        timers.push({ ms, fire: resolve });
        signal.addEventListener('abort', () => resolve());
      }),
    log: getScope('default'),
  };
  /** Lets the awaited time pass, which must be `ms`. */
  const pass = async (ms: number): Promise<void> => {
    await new Promise(setImmediate);
    const timer = timers.at(-1);
    assert.equal(timer?.ms, ms);
    timer?.fire();
    await new Promise(setImmediate);
  };
  return { deps, events, ended, forced, pass };
}

test('discourages callers, closes listeners after half of the time, then sends SIGTERM', async () => {
  const { deps, events, pass } = world(['SIGTERM']);
  const done = drainAndEnd({ until: 'time', ms: 5000 }, deps);
  assert.deepEqual(events, ['discouraged']);
  await pass(2500);
  assert.deepEqual(events, ['discouraged', 'listeners closed']);
  await pass(2500);
  await done;
  assert.deepEqual(events, ['discouraged', 'listeners closed', 'SIGTERM']);
});

test('an Envoy that does not end on SIGTERM is killed', async () => {
  const { deps, events, pass } = world(['SIGKILL']);
  const done = drainAndEnd({ until: 'time', ms: 5000 }, deps);
  await pass(2500);
  await pass(2500);
  await pass(500);
  await done;
  assert.deepEqual(events, ['discouraged', 'listeners closed', 'SIGTERM', 'SIGKILL']);
});

test('ends as soon as Envoy has ended, without a signal', async () => {
  const { deps, events, ended } = world([]);
  ended.resolve();
  await drainAndEnd({ until: 'time', ms: 3_600_000 }, deps);
  assert.deepEqual(events, ['discouraged']);
});

test('a second signal ends it at once in any phase', async () => {
  for (const halves of [0, 1]) {
    const { deps, events, forced, pass } = world(['SIGKILL']);
    const done = drainAndEnd({ until: 'time', ms: 7_200_000 }, deps);
    for (let half = 0; half < halves; half++) await pass(3_600_000);
    forced.resolve();
    await done;
    assert.deepEqual(events, ['discouraged', 'listeners closed'].slice(0, 1 + halves).concat('SIGKILL'));
  }
});

test('without a drain time Envoy gets SIGTERM at once', async () => {
  const { deps, events } = world(['SIGTERM']);
  await drainAndEnd({ until: 'time', ms: 0 }, deps);
  assert.deepEqual(events, ['SIGTERM']);
});

test('an Envoy that does not answer does not change the deadline', async () => {
  for (const step of [() => new Promise<void>(() => undefined), () => Promise.reject(new Error('refused'))]) {
    const { deps, events, pass } = world(['SIGTERM']);
    const done = drainAndEnd({ until: 'time', ms: 1000 }, { ...deps, discourage: step, closeListeners: step });
    await pass(500);
    await pass(500);
    await done;
    assert.deepEqual(events, ['SIGTERM']);
  }
});

test('until there are no connections: callers are discouraged for the minimum, then listeners are closed', async () => {
  const { deps, events, pass } = world(['SIGTERM'], [2, 1, 0]);
  const done = drainAndEnd({ until: 'no connections', minimumMs: 5000 }, deps);
  await pass(5000);
  assert.deepEqual(events, ['discouraged', 'listeners closed']);
  for (let counts = 0; counts < 3; counts++) await pass(1000);
  await done;
  assert.deepEqual(events, ['discouraged', 'listeners closed', 'SIGTERM']);
});

test('an Envoy that does not say how many connections it has is asked five times', async () => {
  const { deps, events, pass } = world(['SIGTERM'], [2]);
  const done = drainAndEnd({ until: 'no connections', minimumMs: 0 }, deps);
  await pass(0);
  for (let counts = 0; counts < 6; counts++) await pass(1000);
  await done;
  assert.deepEqual(events, ['discouraged', 'listeners closed', 'SIGTERM']);
});

test('connections of callers and of the application count once, those to the proxy itself do not', () => {
  const stats = [
    'listener.0.0.0.0_15006.downstream_cx_active: 2',
    'listener.0.0.0.0_15006.worker_0.downstream_cx_active: 2',
    'listener.[__]_15001.downstream_cx_active: 1',
    'listener.0.0.0.0_15090.downstream_cx_active: 7',
    'listener.admin.downstream_cx_active: 1',
    'listener.admin.main_thread.downstream_cx_active: 1',
  ].join('\n');
  assert.equal(connectionsIn(stats, 15090), 3);
  assert.equal(connectionsIn('', 15090), 0);
});
