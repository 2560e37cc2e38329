import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { EventRing } from './events.ts';
import { PushHistory } from './push-history.ts';
import { SeriesRing } from './series.ts';
import { Times } from './times.ts';

test('a quantile is within 19 % of the true one, and never above the largest time', () => {
  const times = fc.array(fc.double({ min: 0.3, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 100 });
  fc.assert(
    fc.property(times, fc.constantFrom(0.5, 0.99, 1), (all, part) => {
      const distribution = new Times();
      for (const ms of all) distribution.add(ms);
      const sorted = all.toSorted((a, b) => a - b);
      const exact = sorted[Math.ceil(all.length * part) - 1] ?? 0;
      const found = distribution.quantile(part) ?? 0;
      assert.ok(found >= exact / 1.2 && found <= exact * 1.2, `${found} for ${exact}`);
      assert.ok(found <= distribution.max);
    }),
    { numRuns: 100 },
  );
});

test('without a time there is no quantile', () => {
  assert.equal(new Times().quantile(0.5), undefined);
});

/** A ring whose time the test sets, in seconds. */
function ring() {
  let seconds = 1_000_000;
  const timers: (() => void)[] = [];
  const later = (_ms: number, run: () => void) => {
    timers.push(run);
    return { cancel: () => {} };
  };
  const series = new SeriesRing({ wall: () => seconds * 1000, later });
  return { series, pass: (by: number) => (seconds += by), fire: () => timers.shift()?.() };
}

test('events are counted in the interval in which they happen', () => {
  const { series, pass } = ring();
  for (let count = 0; count < 20; count++) series.pushed(100);
  series.converged(40);
  pass(10);
  series.changed();
  series.rejected();
  pass(10);
  const recent = series.recent();
  assert.deepEqual(recent.times, [1_000_000, 1_000_010, 1_000_020]);
  assert.deepEqual(recent.pushesPerSecond, [2, 0, 0]);
  assert.deepEqual(recent.bytesPerSecond, [200, 0, 0]);
  assert.deepEqual(recent.changesPerSecond, [0, 0.1, 0]);
  assert.deepEqual(recent.rejections, [0, 1, 0]);
  assert.deepEqual(recent.convergenceP99, [40, null, null]);
});

test('levels are read at the end of each interval, and now', () => {
  const { series, pass, fire } = ring();
  let proxies = 3;
  series.sample(() => ({ proxies, queued: 0, rss: 1, heap: 1 }));
  pass(9.9);
  fire();
  proxies = 5;
  pass(0.2);
  assert.deepEqual(series.recent().proxies, [3, 5]);
});

test('a level that is read late belongs to the interval whose end it is of', () => {
  const { series, pass, fire } = ring();
  series.sample(() => ({ proxies: 3, queued: 0, rss: 1, heap: 1 }));
  pass(12);
  fire();
  assert.deepEqual(series.recent().proxies, [3, 3]);
});

test('what is older than 30 minutes is gone', () => {
  const { series, pass } = ring();
  series.pushed(1);
  for (let count = 0; count < 200; count++) pass(10);
  const { times, pushesPerSecond } = series.recent();
  assert.equal(times.length, 181);
  assert.ok(pushesPerSecond.every((value) => value === 0));
});

/** A history at monotonic time 1,000 ms. */
const history = () => new PushHistory({ now: () => 1000, wall: () => 5000 });
const change = (eventTime: number, keys: readonly string[] = ['Service/a/b']) => ({
  version: eventTime,
  eventTime,
  keys,
  milliseconds: 20,
});

test('a change shows which proxies needed it, and how long they took', () => {
  const pushes = history();
  pushes.published(change(900));
  pushes.triggered('service');
  pushes.stage('generate', 7);
  for (const [id, ms] of [
    ['a', 30],
    ['b', 60],
    ['c', undefined],
  ] as const) {
    pushes.began(id, 900);
    if (ms !== undefined) pushes.sent(id, 500);
    pushes.ended(id, ms);
  }
  pushes.began('d', 900);
  const [push] = pushes.recent();
  assert.deepEqual([push?.acknowledged, push?.without, push?.underWay, push?.bytes], [2, 1, 1, 1000]);
  assert.deepEqual([push?.at, push?.triggers, push?.resources, push?.max], [4900, ['service'], ['Service/a/b'], 60]);
  assert.deepEqual(push?.stages, { debounce: 80, snapshot: 20, views: 0, generate: 7, intern: 0 });
});

test('a change is complete when its proxies have acknowledged it, or after a minute', () => {
  let now = 1000;
  const pushes = new PushHistory({ now: () => now, wall: () => now + 4000 });
  pushes.published(change(900));
  pushes.stage('generate', 7);
  pushes.began('a', 900);
  pushes.published(change(950));
  assert.deepEqual(pushes.completed(0), [], 'more proxies may follow');
  now += 3000;
  assert.deepEqual(pushes.completed(0), [], 'a proxy has not acknowledged it');
  pushes.ended('a', 30);
  const [first, second] = pushes.completed(0);
  assert.deepEqual([first?.number, second?.number], [1, 2]);
  assert.deepEqual(first?.stageTimes.get('generate'), { begin: 4993, end: 5000 });
  assert.deepEqual(
    pushes.completed(1).map(({ number }) => number),
    [2],
  );
  pushes.published(change(3990));
  pushes.began('b', 3990);
  now += 60_000;
  assert.deepEqual(
    pushes.completed(2).map(({ number, underWay }) => [number, underWay]),
    [[3, 1]],
  );
});

test('a response outside a change counts for none', () => {
  const pushes = history();
  pushes.published(change(900));
  pushes.sent('a', 500);
  assert.equal(pushes.recent()[0]?.bytes, 0);
});

test('the history has 200 changes, and few names of each', () => {
  const pushes = history();
  pushes.began('a', 1);
  for (let count = 1; count <= 300; count++) pushes.published(change(count, Array(50).fill('x'.repeat(1000))));
  pushes.ended('a', 10);
  const recent = pushes.recent();
  assert.deepEqual([recent.length, recent[0]?.version, recent.at(-1)?.version], [200, 300, 101]);
  assert.deepEqual([recent[0]?.changed, recent[0]?.resources.length, recent[0]?.resources[0]?.length], [50, 10, 300]);
});

test('the last 500 events are kept, the newest first', () => {
  const ring = new EventRing();
  const event = { at: 1, level: 'info', scope: 'ads' };
  assert.deepEqual(ring.recent(), []);
  for (let count = 1; count <= 3; count++) ring.note({ ...event, message: `m${count}` });
  assert.deepEqual(
    ring.recent(1).map(({ message }) => message),
    ['m3', 'm2'],
  );
  for (let count = 4; count <= 1203; count++) ring.note({ ...event, message: 'x'.repeat(2000) });
  const all = ring.recent();
  assert.deepEqual([all.length, all[0]?.number, all.at(-1)?.number, all[0]?.message.length], [500, 1203, 704, 1000]);
  assert.deepEqual(ring.recent(5000), []);
});
