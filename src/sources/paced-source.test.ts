import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../core/testing/fake-clock.ts';
import { keyOf, type ResourceEvent, type ResourceKey } from '../resources/index.ts';
import { createDebouncer } from '../store/index.ts';
import { resource } from '../store/testing/documents.ts';
import { PACE_BURST, PACE_MS, type PaceOptions, pacedSource } from './paced-source.ts';
import type { SourceSink } from './source.ts';

const set = (name: string, version = 1): Extract<ResourceEvent, { type: 'set' }> => ({
  type: 'set',
  resource: resource('Service', name, version),
  eventTime: version,
});
const gone = (name: string): ResourceEvent => ({ type: 'delete', key: `Service/ns/${name}`, eventTime: 1 });
const shown = (events: readonly ResourceEvent[]): string[] =>
  events.map((event) => (event.type === 'set' ? `${keyOf(event.resource)}@${event.eventTime}` : event.type));

/** Paced sources of several clusters that send to one sink. */
function pacedSources(to: SourceSink, ...clusters: readonly string[]) {
  return pacedWith({}, to, ...clusters);
}

function pacedWith(more: Pick<PaceOptions, 'isOfEndpoints'>, to: SourceSink, ...clusters: readonly string[]) {
  const clock = fakeClock({ start: 500 });
  const lines: string[] = [];
  const note = (line: string): void => void lines.push(line);
  const log = { debug: note, info: note, warn: note, error: note };
  let delayed = 0;
  const onDelayed = (changes: number): void => {
    delayed += changes;
  };
  const options = { clock, log, onDelayed, ...more };
  const opened = clusters.map((cluster) => {
    let sink: SourceSink | undefined;
    const source = pacedSource(
      {
        id: cluster,
        cluster,
        synced: Promise.resolve(),
        start: (given) => {
          sink = given;
        },
        health: () => ({ ok: true }),
        close: () => Promise.resolve(),
      },
      options,
    );
    source.start(to);
    assert.ok(sink !== undefined);
    return { source, sink };
  });
  return { clock, lines, opened, delayed: () => delayed };
}

function recordingSink() {
  const passed: (readonly string[])[] = [];
  const sink: SourceSink = {
    apply: (events) => passed.push(shown(events)),
    replace: ({ events }) => passed.push(['list', ...shown(events)]),
    changing: (at) => passed.push([`changing at ${at}`]),
  };
  return { passed, sink };
}

/** A sink that applies changes in slices, each until the test settles its promise. */
function slicingSink() {
  const { passed, sink } = recordingSink();
  const running: PromiseWithResolvers<void>[] = [];
  const applyInSlices = (events: readonly ResourceEvent[]): Promise<void> => {
    const applied = Promise.withResolvers<void>();
    passed.push(shown(events));
    running.push(applied);
    return applied.promise;
  };
  return { passed, running, sink: { ...sink, applyInSlices } };
}

/** Sends what uses up the burst. */
function exhaust(sink: SourceSink): void {
  for (let batch = 1; batch <= PACE_BURST; batch++) sink.apply([set('burst', batch)]);
}

test('passes a burst on at once, then the newest change of each key at the next moment that is common to all', () => {
  const { passed, sink: to } = recordingSink();
  const { clock, lines, opened, delayed } = pacedSources(to, 'east');
  const [{ sink } = assert.fail()] = opened;
  exhaust(sink);
  assert.equal(passed.splice(0).length, PACE_BURST);
  assert.deepEqual([delayed(), lines], [0, []]);
  clock.pass(100);
  sink.apply([set('a', 1), set('b', 1)]);
  sink.apply([set('a', 2), gone('b')]);
  sink.changing(600);
  clock.pass(399);
  assert.deepEqual(passed, []);
  clock.pass(1);
  assert.deepEqual(passed.splice(0), [['Service/ns/a@2', 'delete']]);
  assert.equal(delayed(), 4);
  const line = 'cluster east: changes arrive too fast; until there are fewer, they take effect once a second';
  assert.deepEqual(lines, [line]);
  // It goes on like this, with one line.
  for (let at = 0; at < 10; at++) {
    clock.pass(PACE_MS / 10);
    sink.apply([set('a', 10 + at)]);
  }
  clock.pass(PACE_MS);
  assert.deepEqual(passed.splice(0), [['Service/ns/a@18'], ['Service/ns/a@19']]);
  assert.deepEqual(lines, [line]);
  // After a calm time there is a new burst.
  clock.pass(100_000);
  sink.apply([set('a', 30)]);
  assert.deepEqual(passed.splice(0), [['Service/ns/a@30']]);
  exhaust(sink);
  assert.deepEqual(lines, [line, line]);
});

test('a list is passed on at once, after the changes before it', () => {
  const { passed, sink: to } = recordingSink();
  const { clock, opened } = pacedSources(to, 'east');
  const [{ sink } = assert.fail()] = opened;
  exhaust(sink);
  passed.length = 0;
  sink.apply([set('a', 1)]);
  sink.replace({ events: [set('a', 2)], eventTime: 2 });
  assert.deepEqual(passed.splice(0), [['Service/ns/a@1'], ['list', 'Service/ns/a@2']]);
  clock.pass(5000);
  assert.deepEqual(passed, []);
});

test('changes that cannot be passed on stay collected, and a closed source passes nothing on', () => {
  const { passed, sink: to } = recordingSink();
  let broken = false;
  const apply = (events: readonly ResourceEvent[]): void => {
    if (broken) throw new Error('broken');
    to.apply(events);
  };
  const { clock, lines, opened } = pacedSources({ ...to, apply }, 'east');
  const [{ source, sink } = assert.fail()] = opened;
  exhaust(sink);
  passed.length = 0;
  sink.apply([set('a', 1)]);
  broken = true;
  clock.pass(3 * PACE_MS);
  assert.equal(lines[1], 'cluster east: cannot apply changes: broken; retrying every second');
  assert.equal(lines.length, 2);
  sink.apply([set('b', 1)]);
  broken = false;
  clock.pass(PACE_MS);
  assert.deepEqual(passed.splice(0), [['Service/ns/a@1', 'Service/ns/b@1']]);
  exhaust(sink);
  passed.length = 0;
  sink.apply([set('c', 1)]);
  void source.close();
  sink.apply([set('d', 1)]);
  clock.pass(5 * PACE_MS);
  assert.deepEqual(passed, []);
});

test('changes of endpoints are passed on at once, unless an earlier change of the document waits', async () => {
  const { passed, sink: to } = recordingSink();
  const isOfEndpoints = (event: ResourceEvent) => event.eventTime >= 100;
  const { clock, opened } = pacedWith({ isOfEndpoints }, to, 'east');
  const [{ sink } = assert.fail()] = opened;
  for (let version = 1; version <= PACE_BURST; version++) sink.apply([set('a', version)]);
  passed.length = 0;
  sink.apply([set('a', 50), set('b', 100)]);
  sink.apply([set('b', 101)]);
  sink.apply([set('a', 102)]);
  assert.deepEqual(passed, [['Service/ns/b@100'], ['Service/ns/b@101']]);
  await clock.advance(PACE_MS);
  assert.deepEqual(passed.slice(2), [['Service/ns/a@102']]);
});

test('changes of others are published as soon as they are quiet, although clusters change without a pause', async () => {
  const published: ReadonlySet<ResourceKey>[] = [];
  let changed = new Set<ResourceKey>();
  let report = (_key: ResourceKey): void => {};
  const to: SourceSink = {
    apply: () => report('Service/ns/noisy/east'),
    replace: () => {},
    changing: () => {},
  };
  const { clock, opened } = pacedSources(to, 'east', 'west', 'north');
  const debouncer = createDebouncer({
    afterMs: 100,
    maxMs: 10_000,
    edsDebounce: true,
    clock,
    endpointsOf: () => undefined,
    busyMs: () => 0,
    hooks: { onChange() {}, onTimerReset() {}, onQuiesce() {}, onMaxTime() {}, onError() {} },
    publish: () => {
      published.push(changed);
      changed = new Set();
    },
  });
  report = (key) => {
    changed.add(key);
    debouncer.changed(new Set([key]));
  };
  const noise = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 50) {
      for (const { sink } of opened) sink.apply([set('noisy', clock.now())]);
      await clock.advance(50);
    }
  };
  await noise(5000);
  published.length = 0;
  report('VirtualService/ns/own');
  await noise(PACE_MS);
  assert.ok(published.some((keys) => keys.has('VirtualService/ns/own')));
});

test('a source learns when what was passed on in slices is applied, or cannot be', async () => {
  const { sink: to } = recordingSink();
  let application = Promise.withResolvers<void>();
  const { opened } = pacedSources({ ...to, applyInSlices: () => application.promise }, 'east');
  const [{ sink } = assert.fail()] = opened;
  const failed = sink.applyInSlices?.([set('a', 1)]);
  application.reject(new Error('broken'));
  await assert.rejects(failed ?? Promise.resolve(), /broken/);
  application = Promise.withResolvers<void>();
  const applied = sink.applyInSlices?.([set('a', 2)]);
  application.resolve();
  await applied;
});

test('collected changes that could not be applied are not passed on after newer ones of their keys', async () => {
  const { passed, running, sink: to } = slicingSink();
  const isOfEndpoints = (event: ResourceEvent) => event.eventTime >= 100;
  const { clock, opened } = pacedWith({ isOfEndpoints }, to, 'east');
  const [{ sink } = assert.fail()] = opened;
  exhaust(sink);
  const begin = async (): Promise<number> => {
    sink.apply([set('a', 1), set('b', 1)]);
    await clock.advance(PACE_MS);
    passed.length = 0;
    return running.length - 1;
  };
  // Endpoints of a document of which a change is being applied wait for that.
  let at = await begin();
  sink.apply([set('a', 100)]);
  assert.deepEqual(passed, []);
  running[at]?.reject(new Error('a bug'));
  await clock.advance(PACE_MS);
  assert.deepEqual(passed.splice(0), [['Service/ns/b@1', 'Service/ns/a@100']]);
  running.at(-1)?.resolve();
  await clock.advance(0);
  // A list is newer than what is being applied.
  at = await begin();
  sink.replace({ events: [set('a', 2)], eventTime: 2 });
  assert.equal(sink.delays?.(), false);
  running[at]?.reject(new Error('a bug'));
  await clock.advance(5 * PACE_MS);
  assert.deepEqual(passed, [['list', 'Service/ns/a@2']]);
});

test('a list of some kinds takes no part of the changes of others that could not be applied', async () => {
  const { passed, running, sink: to } = slicingSink();
  const { clock, opened } = pacedSources(to, 'east');
  const [{ sink } = assert.fail()] = opened;
  exhaust(sink);
  const gateway: ResourceEvent = { type: 'delete', key: 'Gateway/ns/g', eventTime: 1 };
  sink.apply([set('a', 1), gateway, { type: 'resolved', id: 'Gateway/ns/g#duplicate', eventTime: 1 }]);
  await clock.advance(PACE_MS);
  passed.length = 0;
  sink.replace({ kinds: ['Service'], events: [set('a', 2)], eventTime: 2 });
  running.at(-1)?.reject(new Error('a bug'));
  await clock.advance(PACE_MS);
  assert.deepEqual(passed, [['list', 'Service/ns/a@2'], ['delete']]);
});

test('collected changes are applied in slices, and their source learns when they are', async () => {
  const { passed, running, sink: to } = slicingSink();
  const { clock, opened } = pacedSources(to, 'east');
  const [{ sink } = assert.fail()] = opened;
  exhaust(sink);
  passed.length = 0;
  const told: string[] = [];
  const send = (...events: readonly ResourceEvent[]): void => {
    const applied = sink.applyInSlices?.(events) ?? assert.fail();
    void applied.then(() => told.push(shown(events).join()));
  };
  assert.equal(sink.delays?.(), false);
  send(set('a', 1), set('b', 1));
  send(set('a', 2));
  assert.equal(sink.delays?.(), true);
  await clock.advance(PACE_MS);
  assert.deepEqual([passed.splice(0), told], [[['Service/ns/a@2', 'Service/ns/b@1']], []]);
  // While they are being applied, later ones are collected.
  send(set('a', 3));
  assert.equal(sink.delays?.(), true);
  running[0]?.reject(new Error('a bug'));
  await clock.advance(PACE_MS);
  assert.deepEqual([passed.splice(0), told.splice(0)], [[['Service/ns/b@1', 'Service/ns/a@3']], []]);
  send(set('c', 1));
  running[1]?.resolve();
  await clock.advance(0);
  assert.deepEqual(told.splice(0).sort(), ['Service/ns/a@1,Service/ns/b@1', 'Service/ns/a@2', 'Service/ns/a@3'].sort());
  await clock.advance(PACE_MS);
  running[2]?.resolve();
  await clock.advance(0);
  assert.deepEqual([passed, told, sink.delays?.()], [[['Service/ns/c@1']], ['Service/ns/c@1'], false]);
});
