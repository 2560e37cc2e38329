import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ResourceEvent, ResourceKey } from '../../resources/index.ts';
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

function opened() {
  const store = createStore({
    sources: [],
    cluster: 'home',
    appNamespaces: [],
    rootNamespace: 'mesh-system',
    onRefused: () => {
      throw new Error('a bug');
    },
    onResolved: () => {},
  });
  const changed: ResourceKey[] = [];
  const { sinkOf } = storeSinks({
    store,
    meter: { applied: () => {}, received: () => {} },
    batches: new Batches(() => performance.now()),
    followers: [{ changed: (keys) => void changed.push(...keys), changePending: () => {} }],
    now: () => 0,
  });
  return { store, changed, sink: sinkOf(SOURCE) };
}

describe('a source whose events cannot all be applied', () => {
  for (const count of [10, 2 * MAX_AT_ONCE]) {
    it(`learns of it, and the others of ${count} take effect`, async () => {
      const events = eventsWithFailing(count);
      const atOnce = opened();
      assert.throws(() => atOnce.sink.apply(events), /a bug/);
      const inSlices = opened();
      await assert.rejects(async () => inSlices.sink.applyInSlices?.(events), /a bug/);
      for (const { store, changed } of [atOnce, inSlices]) {
        assert.equal(changed.length, count);
        assert.equal(store.take().changes.length, count);
      }
    });
  }
});
