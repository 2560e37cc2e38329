import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Model, type ModelChange } from '../../model/index.ts';
import { endpoints, meshResource, service, virtualService } from '../../push/testing/mesh.ts';
import { type AnyResource, keyOf, type ResourceChange } from '../../resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../../resources/mesh-config.ts';
import { NO_EVENT } from '../../resources/mesh-update.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { modelSettings } from '../config/model-settings.ts';
import { type PublishedModel, Publisher, type PublishProblem } from './publisher.ts';

function set(after: AnyResource): ResourceChange {
  return { key: keyOf(after), before: undefined, after };
}

class Bench {
  readonly publications: ModelChange[] = [];
  readonly faults: PublishProblem[] = [];
  readonly poison = new Set<string>();
  meshBroken = false;
  now = 0;
  /** Added to the time by each reading of the clock, ms. */
  tick = 0;
  attempts = 0;
  readonly publisher: Publisher;

  constructor() {
    const mesh = defaultMeshConfig();
    const settings = modelSettings(defaultDiscoverySettings(), mesh);
    this.publisher = new Publisher({
      model: this.#poisoned(Model.empty(settings, mesh, defaultMeshNetworks())),
      now: () => {
        this.now += this.tick;
        return this.now;
      },
      onProblem: (fault) => this.faults.push(fault),
    });
    this.publisher.onPublication((publication) => this.publications.push(publication));
  }

  #poisoned(model: Model): PublishedModel {
    return {
      get snapshot() {
        return model.snapshot;
      },
      fork: () => this.#poisoned(model.fork()),
      applyInSlices: (update) => {
        this.attempts++;
        const bad = update.changes.find(({ key }) => this.poison.has(key));
        if (bad !== undefined) throw new Error(`cannot take ${bad.key}`);
        if (this.meshBroken && update.mesh !== undefined) throw new Error('cannot take the mesh configuration');
        return model.applyInSlices(update);
      },
    };
  }

  publish(eventTime: number, ...resources: AnyResource[]): void {
    this.publisher.publish({ changes: resources.map(set), eventTime });
  }

  get services(): string[] {
    return [...this.publisher.snapshot.services.keys()].sort();
  }
}

const many = Array.from({ length: 40 }, (_, index) => service('shop', `s${index}`));

describe('publisher', () => {
  it('publishes the next snapshot with its changes and event time', () => {
    const bench = new Bench();
    bench.publish(5, service('shop', 'web'));
    bench.publish(7, endpoints('shop', 'web', '10.0.0.1'));
    bench.publish(8, virtualService('shop', 'web', '3s'));
    assert.deepEqual(
      bench.publications.map(({ eventTime, snapshot }) => [eventTime, snapshot.version]),
      [
        [5, 2],
        [7, 3],
        [8, 4],
      ],
    );
    assert.equal(bench.publications.at(-1)?.snapshot, bench.publisher.snapshot);
  });

  it('has the event time of the earliest event or changed file', () => {
    const bench = new Bench();
    const mesh = { ...defaultMeshConfig(), rootNamespace: 'other' };
    const changes = [set(service('shop', 'web'))];
    bench.now = 50;
    bench.publisher.publish({ changes, eventTime: 5 }, { changes: [], mesh, eventTime: 3 });
    bench.publisher.publish(
      { changes: [set(service('shop', 'api'))], eventTime: 5 },
      { changes: [], mesh, eventTime: 7 },
    );
    bench.publisher.publish({ changes: [], eventTime: NO_EVENT }, { changes: [], mesh, eventTime: 9 });
    bench.publisher.publish({ changes: [set(service('shop', 'db'))], eventTime: NO_EVENT });
    assert.deepEqual(
      bench.publications.map(({ eventTime }) => eventTime),
      [3, 5, 9, 50],
    );
  });

  it('publishes nothing without changes', () => {
    const bench = new Bench();
    bench.publish(1);
    assert.equal(bench.publications.length, 0);
  });
});

describe('publisher: a large change', () => {
  /** Each step of the model takes a slice. */
  function slowly(): { bench: Bench; published: Promise<void> } {
    const bench = new Bench();
    bench.publish(1, service('shop', 'web'));
    bench.tick = 100;
    return { bench, published: bench.publisher.publishInSlices({ changes: many.map(set), eventTime: 2 }) };
  }

  it('is not published after a stop', async () => {
    const { bench } = slowly();
    const stop = new AbortController();
    const update = { changes: [set(service('shop', 'late'))], eventTime: 3 };
    const published = bench.publisher.publishInSlices(update, stop.signal);
    stop.abort();
    await published;
    assert.deepEqual(
      bench.publications.map(({ snapshot }) => snapshot.services.size),
      [1, 41],
    );
  });

  it('lets the event loop run in between, with the snapshot before it until the end', async () => {
    const { bench, published } = slowly();
    let turns = 0;
    const meanwhile = (): void => {
      turns++;
      assert.deepEqual(bench.publisher.snapshot.services.size, bench.publications.length === 1 ? 1 : 41);
      if (bench.publications.length === 1) setImmediate(meanwhile);
    };
    setImmediate(meanwhile);
    await published;
    assert.ok(turns > many.length);
    assert.equal(bench.publications.length, 2);
    assert.equal(bench.publisher.snapshot.services.size, 41);
  });

  it('is published before another one that begins meanwhile', async () => {
    const { bench, published } = slowly();
    bench.publish(3, service('shop', 'last'));
    assert.deepEqual(
      bench.publications.map(({ eventTime, snapshot }) => [eventTime, snapshot.services.size]),
      [
        [1, 1],
        [2, 41],
        [3, 42],
      ],
    );
    await published;
    assert.equal(bench.publications.length, 3);
  });

  it('has what cannot be applied set aside', async () => {
    const bench = new Bench();
    bench.poison.add('Service/shop/s7');
    bench.tick = 100;
    await bench.publisher.publishInSlices({ changes: many.map(set), eventTime: 2 });
    assert.equal(bench.publisher.snapshot.services.size, 39);
    assert.deepEqual(
      bench.faults.map(({ key }) => key),
      ['Service/shop/s7'],
    );
  });
});

describe('publisher: changes that the model cannot apply', () => {
  it('are set aside one by one, and the other changes of the batch are published at once', () => {
    const bench = new Bench();
    bench.poison.add('Service/shop/s7').add('Service/shop/s31');
    bench.publish(1, ...many);
    assert.equal(bench.publications.length, 1);
    assert.equal(bench.services.length, 38);
    assert.deepEqual(bench.faults.map(({ key, message }) => [key, message]).sort(), [
      ['Service/shop/s31', 'cannot take Service/shop/s31'],
      ['Service/shop/s7', 'cannot take Service/shop/s7'],
    ]);
    // The delta for replicas has what the snapshot has.
    assert.ok(bench.publications[0]?.resources.every(({ key }) => !bench.poison.has(key)));
  });

  it('are retried with the next change, with their own event time, and reported once', () => {
    const bench = new Bench();
    bench.poison.add('Service/shop/web');
    bench.publish(1, service('shop', 'web'));
    assert.deepEqual(bench.publications, []);
    bench.publish(10, service('shop', 'api'));
    assert.deepEqual(bench.services, ['shop/api.shop.svc.cluster.local']);
    assert.equal(bench.faults.length, 1);
    bench.poison.clear();
    bench.publish(20, service('shop', 'db'));
    assert.equal(bench.services.length, 3);
    assert.deepEqual(
      bench.publications.map(({ eventTime }) => eventTime),
      [10, 1],
    );
  });

  it('are replaced by a later change of the same resource', () => {
    const bench = new Bench();
    bench.poison.add('Service/shop/web');
    bench.publish(1, service('shop', 'web'));
    bench.poison.clear();
    bench.publisher.publish({
      changes: [{ key: 'Service/shop/web', before: service('shop', 'web'), after: undefined }],
      eventTime: 2,
    });
    bench.publish(3, service('shop', 'api'));
    assert.deepEqual(bench.services, ['shop/api.shop.svc.cluster.local']);
  });

  it('are found with few attempts when every change fails', () => {
    const bench = new Bench();
    for (let index = 0; index < 2000; index++) bench.poison.add(`Service/shop/n${index}`);
    bench.publish(1, ...Array.from({ length: 2000 }, (_, index) => service('shop', `n${index}`)), service('a', 'fine'));
    assert.ok(bench.attempts <= 300, `${bench.attempts} attempts`);
    bench.poison.clear();
    bench.publish(2, service('a', 'other'));
    assert.equal(bench.services.length, 2002);
  });

  it('set a mesh configuration aside without the resources beside it', () => {
    const bench = new Bench();
    bench.meshBroken = true;
    const mesh = { ...defaultMeshConfig(), rootNamespace: 'elsewhere' };
    bench.publisher.publish(
      { changes: [set(service('shop', 'web'))], eventTime: 1 },
      { changes: [], mesh, eventTime: NO_EVENT },
    );
    assert.equal(bench.services.length, 1);
    assert.deepEqual(
      bench.faults.map(({ key }) => key),
      ['mesh configuration'],
    );
    bench.meshBroken = false;
    bench.publish(2, meshResource('Sidecar', 'shop', 'default', { egress: [{ hosts: ['./*'] }] }));
    assert.equal(bench.publisher.snapshot.mesh.rootNamespace, 'elsewhere');
  });
});
