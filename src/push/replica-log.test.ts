import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { applyChanges } from '../model/index.ts';
import type { Snapshot } from '../model/types.ts';
import { defaultMeshConfig } from '../resources/mesh-config.ts';
import { type AnyResource, keyOf, type ResourceChange } from '../resources/types.ts';
import { Replica } from './replica.ts';
import { ReplicaLog } from './replica-log.ts';
import { emptySnapshot, endpoints, service } from './testing.ts';

function set(after: AnyResource): ResourceChange {
  return { key: keyOf(after), before: undefined, after };
}

/** A log beside the snapshots that it tells of. */
class Told {
  snapshot: Snapshot = emptySnapshot();
  readonly log = new ReplicaLog(this.snapshot);

  step(changes: readonly ResourceChange[], mesh?: Snapshot['mesh']): void {
    const { snapshot } = applyChanges(this.snapshot, { changes, ...(mesh === undefined ? {} : { mesh }) });
    this.snapshot = snapshot;
    this.log.append(snapshot, changes);
  }
}

const WEB = service('shop', 'web');

describe('replica log', () => {
  it('tells everything to a worker that has nothing, with settings and mesh', () => {
    const told = new Told();
    told.step([set(WEB)]);
    const update = told.log.since(0);
    assert.deepEqual([update.fromVersion, update.toVersion], [0, 2]);
    assert.deepEqual(update.sets.map(keyOf), ['Service/shop/web']);
    assert.ok(update.settings !== undefined && update.mesh !== undefined && update.networks !== undefined);
  });

  it('tells what changed since a version, each resource once and as it is now', () => {
    const told = new Told();
    told.step([set(WEB)]);
    const at = told.snapshot.version;
    told.step([set(endpoints('shop', 'web', '10.0.0.1'))]);
    told.step([set(endpoints('shop', 'web', '10.0.0.2')), { key: 'Service/shop/web', before: WEB, after: undefined }]);
    const update = told.log.since(at);
    assert.deepEqual([update.fromVersion, update.toVersion], [at, at + 2]);
    assert.deepEqual(update.sets, [endpoints('shop', 'web', '10.0.0.2')]);
    assert.deepEqual(update.deletes, ['Service/shop/web']);
    assert.equal(update.mesh, undefined);
    assert.deepEqual(told.log.since(at + 2).sets, []);
  });

  it('tells of the mesh configuration where it changed since', () => {
    const told = new Told();
    told.step([], { ...defaultMeshConfig(), rootNamespace: 'elsewhere' });
    assert.equal(told.log.since(1).mesh?.rootNamespace, 'elsewhere');
    assert.equal(told.log.since(2).mesh, undefined);
  });

  it('forgets what all workers have, and tells everything to one that stands before that', () => {
    const told = new Told();
    for (let index = 0; index < 5; index++) told.step([set(service('shop', `s${index}`))]);
    told.log.trim(4);
    assert.equal(told.log.size, 2);
    assert.deepEqual(told.log.since(4).sets.map(keyOf), ['Service/shop/s3', 'Service/shop/s4']);
    assert.equal(told.log.since(3).fromVersion, 0);
  });

  it('lets a worker catch up after any number of changes of the same endpoints', () => {
    const told = new Told();
    for (let index = 0; index < 1000; index++) told.step([set(endpoints('shop', 'web', `10.0.0.${index % 250}`))]);
    assert.equal(told.log.size, 1);
    assert.equal(told.log.since(1).fromVersion, 1);
  });

  it('is bounded when names come and go and a worker never catches up', () => {
    const told = new Told();
    for (let version = 0; version < 20; version++) {
      told.step(
        Array.from({ length: 1000 }, (_, index) => ({
          key: `Pod/shop/p${version}-${index}` as const,
          before: undefined,
          after: undefined,
        })),
      );
    }
    assert.ok(told.log.size <= 8192);
    assert.equal(told.log.since(1).fromVersion, 0);
    assert.equal(told.log.since(told.snapshot.version - 3).deletes.length, 3000);
  });

  it('brings replicas that lag by any amount to the same inputs', () => {
    const change = fc.record({ name: fc.nat(5), ip: fc.option(fc.nat(250), { nil: undefined }) });
    const step = fc.record({ changes: fc.array(change, { maxLength: 3 }), worker: fc.nat(2), trim: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        const told = new Told();
        const workers = [0, 1, 2].map(() => ({ replica: new Replica(), version: 0 }));
        for (const { changes, worker, trim } of steps) {
          told.step(
            changes.map(({ name, ip }): ResourceChange => {
              const key = `Endpoints/shop/s${name}` as const;
              return {
                key,
                before: undefined,
                after: ip === undefined ? undefined : endpoints('shop', `s${name}`, `10.0.0.${ip}`),
              };
            }),
          );
          const own = workers[worker];
          if (own === undefined) continue;
          const answer = own.replica.run({ update: told.log.since(own.version), jobs: [] });
          assert.deepEqual([answer.kind, answer.version], ['done', told.snapshot.version]);
          own.version = answer.version;
          assert.deepEqual(
            own.replica.snapshot?.resources('Endpoints').sorted(),
            told.snapshot.resources('Endpoints').sorted(),
          );
          if (trim) told.log.trim(Math.min(...workers.map(({ version }) => version || told.snapshot.version)));
        }
      }),
      { numRuns: 60 },
    );
  });
});
