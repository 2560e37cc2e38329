import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import type { AnyResource, ResourceEvent, ResourceKey } from '../../resources/index.ts';
import { createStore } from '../../store/index.ts';
import { resource } from '../../store/testing/documents.ts';
import { Batches, MAX_AT_ONCE } from './batches.ts';
import { storeSinks } from './store-sinks.ts';

const SOURCE = { id: 'files', cluster: 'home' };

/** Services, with a refused document in their midst. */
function eventsWithFailing(count: number): ResourceEvent[] {
  const services = Array.from(
    { length: count },
    (_, index): ResourceEvent => ({ type: 'set', resource: resource('Service', `s${index}`, 1), eventTime: 0 }),
  );
  const problem = { id: 'broken', origin: { source: SOURCE.id }, field: 'spec', message: 'expected a map' };
  services.splice(count >> 1, 0, { type: 'invalid', problem, eventTime: 0 });
  return services;
}

/** @param onRefused of the store */
function opened(onRefused: () => void) {
  const clock = fakeClock();
  let resolved = 0;
  const store = createStore({
    sources: [],
    cluster: 'home',
    appNamespaces: [],
    rootNamespace: 'mesh-system',
    onRefused,
    onResolved: () => {
      resolved++;
    },
  });
  const changed: ResourceKey[] = [];
  const { sinkOf, removed } = storeSinks({
    store,
    meter: { applied: () => {}, received: () => {} },
    batches: new Batches(() => performance.now()),
    followers: [{ changed: (keys) => void changed.push(...keys), changePending: () => {} }],
    clock,
  });
  return { store, changed, clock, sink: sinkOf(SOURCE), removed, resolved: () => resolved };
}

function fail(): never {
  throw new Error('a bug');
}

describe('a source whose events cannot all be applied', () => {
  for (const count of [10, 2 * MAX_AT_ONCE]) {
    it(`learns of it, and the others of ${count} take effect`, async () => {
      const events = eventsWithFailing(count);
      const atOnce = opened(fail);
      assert.throws(() => atOnce.sink.apply(events), /a bug/);
      const inSlices = opened(fail);
      await assert.rejects(async () => inSlices.sink.applyInSlices?.(events), /a bug/);
      for (const { store, changed } of [atOnce, inSlices]) {
        assert.equal(changed.length, count);
        assert.equal(store.take().changes.length, count);
      }
    });
  }
});

describe('a long list', () => {
  const listOf = (count: number) => ({
    events: eventsWithFailing(count).filter((event) => event.type === 'set'),
    eventTime: 0,
  });

  it('leaves time for other work, and takes effect as a whole', async () => {
    const { store, changed, sink } = opened(() => {});
    const applied = sink.replaceInSlices?.(listOf(40 * MAX_AT_ONCE));
    let isEnded = false;
    void applied?.then(() => {
      isEnded = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([isEnded, changed.length], [false, 0]);
    await applied;
    assert.equal(changed.length, 40 * MAX_AT_ONCE);
    // Most of a short list may be deletions.
    assert.ok(sink.replaceInSlices?.(listOf(1)) instanceof Promise);
    assert.deepEqual([sink.apply([]), store.documentsOf(SOURCE.id).size], [undefined, 1]);
  });

  it('is applied before what its source sends meanwhile', async () => {
    const { store, sink } = opened(() => {});
    const applied = sink.replaceInSlices?.(listOf(2 * MAX_AT_ONCE));
    sink.apply([{ type: 'delete', key: `Service/ns/s${2 * MAX_AT_ONCE - 1}`, eventTime: 0 }]);
    assert.equal(store.documentsOf(SOURCE.id).size, 2 * MAX_AT_ONCE - 1);
    await applied;
    assert.equal(store.documentsOf(SOURCE.id).size, 2 * MAX_AT_ONCE - 1);
  });
});

/** A document that cannot be applied until the test says so, and how often that was tried. */
function failing(name: string, version = 1) {
  const state = { isBroken: true, tries: 0 };
  const warnings = {
    get: () => {
      state.tries++;
      return state.isBroken ? fail() : undefined;
    },
    enumerable: true,
  };
  const document: AnyResource = Object.defineProperties({ ...resource('Service', name, version) }, { warnings });
  return { state, event: { type: 'set', resource: document, eventTime: 0 } satisfies ResourceEvent };
}

const set = (name: string, version: number): ResourceEvent => ({
  type: 'set',
  resource: resource('Service', name, version),
  eventTime: 0,
});
const KEY = 'Service/ns/a';

describe('a document that is refused because of an internal error', () => {
  it('is applied again, ever more rarely, until it is in force', async () => {
    const { store, changed, clock, sink, resolved } = opened(() => {});
    const { state, event } = failing('a');
    sink.apply([event]);
    assert.deepEqual([state.tries, store.get(KEY), sink.refusals?.().size], [1, undefined, 1]);
    await clock.advance(1000);
    await clock.advance(2000);
    assert.equal(state.tries, 3);
    await clock.advance(600_000);
    assert.ok(state.tries <= 20, `${state.tries} tries`);
    assert.deepEqual([resolved(), changed], [0, []]);
    state.isBroken = false;
    await clock.advance(60_000);
    assert.deepEqual([store.get(KEY)?.fingerprint, changed], [event.resource.fingerprint, [KEY]]);
    assert.deepEqual([store.problems(), sink.refusals?.().size, resolved()], [[], 0, 1]);
    assert.deepEqual(clock.pending(), []);
  });

  const problem = { id: KEY, key: KEY, origin: { source: SOURCE.id }, field: 'spec', message: 'expected a map' };
  for (const [what, newer, inForce] of [
    ['another version', set('a', 2), resource('Service', 'a', 2).fingerprint],
    ['its deletion', { type: 'delete', key: KEY, eventTime: 0 }, undefined],
    ['a version with a mistake', { type: 'invalid', problem, eventTime: 0 }, undefined],
    ['an unreadable version', { type: 'invalid', problem: { ...problem, id: 'a.yaml#0' }, eventTime: 0 }, undefined],
  ] as const) {
    it(`is not applied again after ${what}`, async () => {
      const { store, clock, sink } = opened(() => {});
      const { state, event } = failing('a');
      sink.apply([event]);
      sink.apply([newer]);
      state.isBroken = false;
      await clock.advance(60_000);
      assert.deepEqual([state.tries, store.get(KEY)?.fingerprint, clock.pending()], [1, inForce, []]);
    });
  }

  it('is forgotten with its source', async () => {
    const { clock, sink, removed } = opened(() => {});
    sink.apply([failing('a').event]);
    removed(SOURCE);
    assert.deepEqual(clock.pending(), []);
  });
});
