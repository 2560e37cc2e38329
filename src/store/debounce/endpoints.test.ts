/** Endpoints wait service by service, and for the main thread. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { setUp } from '../testing/debouncer.ts';
import { pause } from './debounce.ts';

test('without endpoint debounce, endpoints are published at once and alone; other changes wait', async () => {
  const { change, advanceTo, published } = setUp({ edsDebounce: false });
  change('EndpointSlice/a/b', 'Service/a/b');
  await advanceTo(10);
  assert.deepEqual(published, [{ at: 0, keys: ['EndpointSlice/a/b'] }]);
  await advanceTo(100);
  assert.deepEqual(published[1], { at: 100, keys: 'all' });
});

test('with endpoint debounce, an endpoint change is published when its service has been quiet for the delay', async () => {
  const { change, advanceTo, published, counts } = setUp();
  change('EndpointSlice/a/b-1');
  await advanceTo(50);
  change('EndpointSlice/a/b-2');
  await advanceTo(149);
  assert.deepEqual(published, []);
  await advanceTo(150);
  assert.deepEqual(published, [{ at: 150, keys: ['EndpointSlice/a/b-1', 'EndpointSlice/a/b-2'] }]);
  assert.deepEqual([counts.quiesce, counts.max], [1, 0]);
});

test('endpoints of a quiet service do not wait for another service, nor for its Pods', async () => {
  const { change, advanceTo, published, counts } = setUp();
  change('EndpointSlice/a/quiet-1', 'Pod/a/quiet');
  for (let at = 0; at <= 1000; at += 50) {
    await advanceTo(at);
    change('EndpointSlice/a/restless-1');
  }
  assert.deepEqual(published, [
    { at: 100, keys: ['EndpointSlice/a/quiet-1', 'Pod/a/quiet'] },
    { at: 1000, keys: ['EndpointSlice/a/restless-1'] },
  ]);
  assert.deepEqual([counts.quiesce, counts.max], [1, 1]);
});

test('endpoints do not wait for configuration that never pauses, which takes those that wait along', async () => {
  const { change, advanceTo, published } = setUp();
  for (let at = 0; at <= 990; at += 30) {
    await advanceTo(at);
    change('VirtualService/a/b');
    if (at === 300 || at === 960) change(`EndpointSlice/a/b-${at}`);
  }
  await advanceTo(1000);
  assert.deepEqual(published, [
    { at: 401, keys: ['EndpointSlice/a/b-300'] },
    { at: 1000, keys: 'all' },
  ]);
  await advanceTo(1050);
  assert.equal(published.length, 2);
});

test('endpoints that change together with configuration are published with it', async () => {
  const { change, advanceTo, published } = setUp();
  change('EndpointSlice/a/b-1', 'VirtualService/a/b');
  for (let at = 50; at <= 200; at += 50) {
    await advanceTo(at);
    change('VirtualService/a/b');
  }
  await advanceTo(1000);
  assert.deepEqual(published, [{ at: 300, keys: 'all' }]);
});

test('endpoints that change at the same time as configuration are published with it', async () => {
  for (const keys of [
    ['EndpointSlice/a/b-1', 'VirtualService/a/b'],
    ['VirtualService/a/b', 'EndpointSlice/a/b-1'],
  ]) {
    const { change, advanceTo, published } = setUp();
    for (const key of keys) change(key);
    await advanceTo(1000);
    assert.deepEqual(published, [{ at: 100, keys: 'all' }]);
  }
});

test('Pods that change are published with any endpoints', async () => {
  const { change, advanceTo, published } = setUp();
  change('EndpointSlice/a/b-1');
  await advanceTo(90);
  change('Pod/a/b');
  await advanceTo(1000);
  assert.deepEqual(published, [{ at: 100, keys: ['EndpointSlice/a/b-1', 'Pod/a/b'] }]);
});

test('a process that is always late publishes endpoints', async () => {
  const { change, hangTo, advanceTo, published } = setUp();
  change('EndpointSlice/a/b-1');
  for (let at = 150; at <= 600; at += 150) {
    hangTo(at);
    await advanceTo(at);
  }
  assert.deepEqual(
    published.map(({ keys }) => keys),
    [['EndpointSlice/a/b-1']],
  );
});

test('endpoints are published with configuration that follows them soon', async () => {
  const { change, advanceTo, published } = setUp();
  change('EndpointSlice/a/b-1');
  await advanceTo(40);
  change('Service/a/b');
  await advanceTo(1000);
  assert.deepEqual(published, [{ at: 140, keys: 'all' }]);
});

test('after a publish endpoints wait until the main thread has been idle for long enough', async () => {
  const { change, advanceTo, published } = setUp({ busyMs: 30 });
  change('EndpointSlice/a/b-1');
  await advanceTo(20);
  change('EndpointSlice/a/c-1');
  await advanceTo(90);
  change('EndpointSlice/a/d-1');
  await advanceTo(1000);
  assert.deepEqual(published, [
    { at: 100, keys: ['EndpointSlice/a/b-1'] },
    { at: 250, keys: ['EndpointSlice/a/c-1', 'EndpointSlice/a/d-1'] },
  ]);
});

test('a main thread that is always busy delays endpoints by a bounded time', () => {
  assert.equal(pause(0), 0);
  assert.equal(pause(10_000), 220);
});

test('endpoints are gathered only after others were published, and for a bounded time', async () => {
  const step = fc.record({ wait: fc.nat(300), service: fc.nat(5) });
  // The last change comes in the same millisecond as the publish of the one before it.
  const changesWithPublish = [
    { wait: 0, service: 1 },
    { wait: 2, service: 0 },
    { wait: 138, service: 0 },
  ];
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), fc.nat(40), async (steps, busyMs) => {
      const { change, advanceTo, published } = setUp({ busyMs, maxMs: 100_000 });
      const changes: { key: string; service: number; at: number }[] = [];
      let time = 0;
      for (const [index, { wait, service }] of steps.entries()) {
        time += wait;
        await advanceTo(time);
        const key = `EndpointSlice/a/s${service}-${index}`;
        changes.push({ key, service, at: time });
        change(key);
      }
      await advanceTo(time + 1000);
      const times = published.map(({ at }) => at);
      for (const [index, at] of times.entries())
        assert.ok(index === 0 || at >= (times[index - 1] ?? 0) + pause(busyMs), `${times} are too close`);
      for (const { key, service, at } of changes) {
        const publish = published.find(({ keys }) => keys.includes(key));
        const publishedAt = publish?.at ?? Number.NaN;
        // A change in the same millisecond may come before the publish or after it.
        const prolongs = (each: { key: string; at: number }) =>
          each.at < publishedAt || publish?.keys.includes(each.key) === true;
        const last = changes.findLast((each) => each.service === service && prolongs(each))?.at ?? at;
        const before = times.findLast((each) => each < publishedAt) ?? Number.NEGATIVE_INFINITY;
        assert.equal(publishedAt, Math.max(last + 100, before + pause(busyMs)), key);
      }
    }),
    { numRuns: 60, examples: [[changesWithPublish, 8]] },
  );
});
