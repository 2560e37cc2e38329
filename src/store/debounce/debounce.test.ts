import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { setUp, timeline } from '../testing/debouncer.ts';
import { createDebouncer, pause } from './debounce.ts';

test('an announced change prolongs the wait before it is read; without a change nothing is published', async () => {
  const { debouncer, change, advanceTo, published } = setUp();
  debouncer.changePending(0);
  await advanceTo(150);
  assert.deepEqual(published, []);
  change('Service/a/b');
  await advanceTo(230);
  debouncer.changePending(230);
  await advanceTo(329);
  assert.deepEqual(published, []);
  await advanceTo(330);
  assert.deepEqual(published, [{ at: 330, keys: 'all' }]);
});

test('changes that never stop to be announced do not delay configuration beyond the first announcement', async () => {
  const { debouncer, change, advanceTo, published } = setUp();
  change('Service/a/b');
  for (let at = 20; at <= 400; at += 20) {
    await advanceTo(at);
    debouncer.changePending(at);
  }
  assert.deepEqual(published, [{ at: 180, keys: 'all' }]);
});

test('an announced change that is of endpoints does not prolong the wait for configuration', async () => {
  const { debouncer, change, advanceTo, published } = setUp();
  change('Service/a/b');
  await advanceTo(90);
  debouncer.changePending(90);
  await advanceTo(120);
  assert.deepEqual(published, []);
  debouncer.changed(new Set(['EndpointSlice/a/c-1']), 90);
  await advanceTo(120);
  assert.deepEqual(published, [{ at: 120, keys: 'all' }]);
});

test('an announced change that is of configuration prolongs the wait from its announcement', async () => {
  const { debouncer, change, advanceTo, published } = setUp();
  change('Service/a/b');
  await advanceTo(90);
  debouncer.changePending(90);
  await advanceTo(120);
  debouncer.changed(new Set(['Service/a/c']), 90);
  await advanceTo(1000);
  assert.deepEqual(published, [{ at: 190, keys: 'all' }]);
});

test('a wait that ends late is over only when no event arrived in the meantime', async () => {
  const { debouncer, change, advanceTo, hangTo, clock, published, counts } = setUp();
  change('Service/a/b');
  await advanceTo(10);
  hangTo(300);
  // Timers run before the events that have arrived.
  clock.setTimer(0, () => debouncer.changePending(300));
  await advanceTo(399);
  assert.deepEqual(published, []);
  hangTo(600);
  await advanceTo(600);
  assert.deepEqual([published.length, counts.quiesce], [1, 1]);
});

test('a process that is always late still publishes, at the maximum', async () => {
  const { debouncer, change, advanceTo, hangTo, clock, published } = setUp();
  change('Service/a/b');
  for (let at = 150; at <= 1200; at += 150) {
    hangTo(at);
    clock.setTimer(0, () => debouncer.changePending(at));
    await advanceTo(at);
  }
  assert.deepEqual(
    published.map(({ at }) => at),
    [1050],
  );
});

test('the time for reading a change counts as waiting if no other change followed', async () => {
  const { debouncer, advanceTo, published, counts } = setUp();
  await advanceTo(30);
  debouncer.changed(new Set(['Service/a/b']), 12);
  await advanceTo(111);
  assert.deepEqual(published, []);
  await advanceTo(112);
  assert.deepEqual(published, [{ at: 112, keys: 'all' }]);
  assert.equal(counts.quiesce, 1);
});

test('a later sign prolongs the wait, an earlier one does not shorten it', async () => {
  const { debouncer, advanceTo, published } = setUp();
  await advanceTo(50);
  debouncer.changed(new Set(['Service/a/b']), 40);
  debouncer.changed(new Set(['Service/a/c']), 10);
  await advanceTo(90);
  debouncer.changed(new Set(['Service/a/d']), 80);
  debouncer.changed(new Set(['Service/a/e']), 10);
  await advanceTo(179);
  assert.deepEqual(published, []);
  await advanceTo(180);
  assert.deepEqual(published, [{ at: 180, keys: 'all' }]);
});

test('a change that took longer to read than the delay is published at once', async () => {
  const { debouncer, advanceTo, published } = setUp();
  await advanceTo(500);
  debouncer.changed(new Set(['Service/a/b']), 100);
  await advanceTo(500);
  assert.deepEqual(published, [{ at: 500, keys: 'all' }]);
});

test('one change is published when it has been quiet for the delay', async () => {
  const { change, advanceTo, published, counts } = setUp();
  change('Service/a/b');
  await advanceTo(99);
  assert.deepEqual(published, []);
  await advanceTo(100);
  assert.deepEqual(published, [{ at: 100, keys: 'all' }]);
  assert.deepEqual([counts.change, counts.quiesce, counts.max, counts.reset], [1, 1, 0, 0]);
});

test('changes that never pause are published at the maximum', async () => {
  const { change, advanceTo, published, counts } = setUp();
  for (let time = 0; time <= 1500; time += 50) {
    await advanceTo(time);
    change('Service/a/b');
  }
  assert.deepEqual(published, [{ at: 1000, keys: 'all' }]);
  assert.equal(counts.max, 1);
  assert.ok(counts.reset > 0);
});

test('a change while a publish is under way waits its own delay, and for that publish', async () => {
  const { change, advanceTo, published, counts } = setUp({ publishMs: 500 });
  change('Service/a/b');
  await advanceTo(150);
  change('Service/a/c');
  await advanceTo(599);
  assert.equal(published.length, 1);
  await advanceTo(600);
  assert.deepEqual(
    published.map(({ at }) => at),
    [100, 600],
  );
  assert.equal(counts.concurrent, 1);
});

test('flush publishes without waiting; after stop nothing is published', async () => {
  const { debouncer, change, advanceTo, published } = setUp();
  change('Service/a/b');
  debouncer.flush();
  await advanceTo(500);
  assert.deepEqual(
    published.map(({ at }) => at),
    [0],
  );
  change('Service/a/b');
  debouncer.stop();
  await advanceTo(2000);
  assert.equal(published.length, 1);
});

test('a publish in progress learns that it is stopped', async () => {
  const { clock, advanceTo } = timeline();
  const none = () => {};
  let stopped: AbortSignal | undefined;
  const debouncer = createDebouncer({
    afterMs: 10,
    maxMs: 100,
    edsDebounce: true,
    clock,
    hooks: { onChange: none, onTimerReset: none, onQuiesce: none, onMaxTime: none, onError: none },
    endpointsOf: () => undefined,
    busyMs: () => 0,
    publish: (_, signal) => {
      stopped = signal;
      return new Promise(none);
    },
  });
  debouncer.changed(new Set(['Service/a/b']));
  await advanceTo(10);
  assert.equal(stopped?.aborted, false);
  debouncer.stop();
  assert.equal(stopped?.aborted, true);
});

test('a publish that throws is reported, and later windows are published', async () => {
  const { clock, advanceTo } = timeline();
  const errors: unknown[] = [];
  let calls = 0;
  const none = () => {};
  const debouncer = createDebouncer({
    afterMs: 10,
    maxMs: 100,
    edsDebounce: true,
    clock,
    endpointsOf: () => undefined,
    busyMs: () => 0,
    hooks: {
      onChange: none,
      onTimerReset: none,
      onQuiesce: none,
      onMaxTime: none,
      onError: (e) => void errors.push(e),
    },
    publish: () => {
      calls++;
      throw new Error('broken');
    },
  });
  debouncer.changed(new Set(['Service/a/b']));
  await advanceTo(10);
  debouncer.changed(new Set(['Service/a/b']));
  await advanceTo(20);
  assert.deepEqual([calls, errors.length], [2, 2]);
});

test('property: every change is published within its bounds, publishes never overlap', async () => {
  const step = fc.record({ wait: fc.nat(250), endpoint: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 25 }),
      fc.boolean(),
      fc.nat(300),
      fc.nat(100),
      async (steps, edsDebounce, publishMs, busyMs) => {
        const { change, advanceTo, published, counts } = setUp({ edsDebounce, publishMs, busyMs });
        let time = 0;
        const changes: { at: number; key: string; urgent: boolean }[] = [];
        for (const { wait, endpoint } of steps) {
          time += wait;
          await advanceTo(time);
          const key = `${endpoint ? 'Endpoints' : 'Service'}/n/${changes.length}`;
          changes.push({ at: time, key, urgent: endpoint && !edsDebounce });
          change(key);
        }
        await advanceTo(time + 5000);
        assert.ok(counts.concurrent <= 1);
        for (const { at, key, urgent } of changes) {
          const covering = published.find((each) => each.at >= at && (each.keys === 'all' || each.keys.includes(key)));
          assert.ok(covering, `${key} was never published`);
          // A publish under way (and one queued before it) is the only further wait.
          // Endpoints may wait for the main thread, too, or for configuration that is published soon.
          const waits = urgent ? 0 : key.startsWith('Endpoints/') ? 100 + pause(busyMs) + 50 : 1000;
          assert.ok(covering.at - at <= waits + 2 * publishMs, `${key} waited ${covering.at - at}`);
        }
        const waited = published.filter(({ keys }) => keys === 'all' || edsDebounce);
        assert.equal(counts.quiesce + counts.max, waited.length);
      },
    ),
    { numRuns: 60 },
  );
});
