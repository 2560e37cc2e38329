import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DEFAULT_PLACEMENT } from '../../generate/views.ts';
import { applyChanges } from '../../model/testing/steps.ts';
import { keyOf } from '../../resources/kinds/types.ts';
import type { GenerateJob, JobAnswer, MeshCopyUpdate } from '../protocol.ts';
import { viewKey, viewsOf } from '../proxies/proxy-views.ts';
import { emptySnapshot, endpoints, service, sidecar } from '../testing/mesh.ts';
import { MeshCopy } from './mesh-copy.ts';
import { MeshCopyLog } from './mesh-copy-log.ts';
import { runJobs } from './run-jobs.ts';

const RESOURCES = [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1')];
const changes = RESOURCES.map((after) => ({ key: keyOf(after), before: undefined, after }));
const { snapshot } = applyChanges(emptySnapshot(), { changes });
const log = new MeshCopyLog(snapshot);
/** An update to a version in which nothing differs. */
function emptyUpdate(fromVersion: number, toVersion = fromVersion): MeshCopyUpdate {
  return { ...log.since(snapshot.version), fromVersion, toVersion };
}

/** Answers without how long they took. */
function untimed(answers: readonly JobAnswer[]): JobAnswer[] {
  return answers.map((answer) => ({ ...answer, milliseconds: {} }));
}

const jobs: GenerateJob[] = viewsOf(snapshot, sidecar('10.0.0.1', 'shop')).map((view) => ({
  viewKey: viewKey(view),
  view,
  units: { cds: 'all', lds: 'all', rds: 'all' },
  placements: [DEFAULT_PLACEMENT],
}));

describe('mesh copy', () => {
  it('generates what the main thread would, byte for byte', () => {
    const answer = new MeshCopy().run({ update: log.since(0), jobs });
    assert.ok(answer.kind === 'done');
    const own = runJobs(snapshot, jobs);
    assert.deepEqual(untimed(answer.jobs), untimed(own.jobs));
    assert.deepEqual(Buffer.from(answer.bytes), Buffer.from(own.bytes));
  });

  it('is behind when an update does not start at its version, and then accepts a complete one', () => {
    const copy = new MeshCopy();
    assert.deepEqual(copy.run({ update: log.since(snapshot.version), jobs }), { kind: 'behind', version: 0 });
    assert.equal(copy.run({ update: log.since(0), jobs }).kind, 'done');
    const far = { ...log.since(snapshot.version), fromVersion: 7, toVersion: 9 };
    assert.deepEqual(copy.run({ update: far, jobs }), { kind: 'behind', version: snapshot.version });
  });

  it('names what it has sent before, and sends it again after it had to discard its numbers', () => {
    const copy = new MeshCopy();
    const task = { update: log.since(snapshot.version), jobs };
    const first = copy.run({ update: log.since(0), jobs, forget: true });
    const second = copy.run(task);
    const third = copy.run({ ...task, forget: true });
    assert.ok(first.kind === 'done' && second.kind === 'done' && third.kind === 'done');
    // Resources that are generated again are sent again: here all but the clusters of the service.
    const [again, ...others] = second.jobs
      .flatMap(({ units }) => units)
      .filter(({ resources }) => resources === undefined);
    assert.deepEqual([again?.type, again?.unit, others], ['cds', 'web.shop.svc.cluster.local', []]);
    const sent = first.jobs.flatMap(({ units }) => units).find(({ number }) => number === again?.number);
    assert.equal(sent?.unit, again?.unit);
    assert.deepEqual(untimed(third.jobs), untimed(first.jobs));
    assert.deepEqual(Buffer.from(third.bytes), Buffer.from(first.bytes));
  });

  it('suspends jobs while others wait, and generates them from the snapshot at which they began', () => {
    const copy = new MeshCopy({ sliceMs: 0 });
    const giveWay = new Int32Array(new SharedArrayBuffer(4));
    const first = copy.run({ update: log.since(0), jobs, id: 7, giveWay });
    assert.ok(first.kind === 'done', 'nobody waits');
    giveWay[0] = 1;
    const task = { update: log.since(snapshot.version), jobs: [], giveWay };
    let answer = copy.run({ ...task, jobs, id: 8, forget: true });
    let suspended = 0;
    let { version } = snapshot;
    for (; answer.kind === 'suspended'; answer = copy.run({ ...task, update: emptyUpdate(version), resumed: 8 })) {
      assert.equal(copy.suspended, 1);
      assert.equal(answer.version, version);
      // The mesh goes on in the meantime.
      const after = copy.run({ update: emptyUpdate(version, ++version), jobs: [] });
      assert.equal(after.version, version);
      suspended++;
    }
    assert.ok(answer.kind === 'done' && suspended > 3);
    assert.deepEqual([answer.version, answer.generatedFrom, copy.suspended], [version, snapshot.version, 0]);
    assert.deepEqual(untimed(answer.jobs), untimed(first.jobs));
    assert.deepEqual(Buffer.from(answer.bytes), Buffer.from(first.bytes));
  });

  it('has nothing to resume of jobs that it does not have, or that were dropped', () => {
    const copy = new MeshCopy({ sliceMs: 0 });
    const giveWay = Int32Array.of(1);
    assert.equal(copy.run({ update: log.since(0), jobs, id: 1, giveWay }).kind, 'suspended');
    const update = log.since(snapshot.version);
    assert.equal(copy.run({ update, jobs: [], resumed: 2, giveWay }).kind, 'lost');
    assert.equal(copy.run({ update, jobs: [], dropped: [1] }).kind, 'done');
    assert.equal(copy.suspended, 0);
    assert.equal(copy.run({ update, jobs: [], resumed: 1, giveWay }).kind, 'lost');
  });

  it('releases scopes that are not used any more, and generates the same for one that is used again', () => {
    const copy = new MeshCopy();
    const first = copy.run({ update: log.since(0), jobs });
    const built = () => copy.scopes;
    assert.equal(built(), 1);
    const update = log.since(snapshot.version);
    for (const released of ['all', ['shop/']] as const) {
      assert.equal(copy.run({ update, jobs: [], released: ['other/'] }).kind, 'done');
      assert.equal(built(), 1);
      assert.equal(copy.run({ update, jobs: [], released }).kind, 'done');
      assert.equal(built(), 0);
      const again = copy.run({ update, jobs, released, forget: true });
      assert.ok(first.kind === 'done' && again.kind === 'done');
      assert.deepEqual(untimed(again.jobs), untimed(first.jobs));
    }
  });

  it('stays usable when a job throws', () => {
    const copy = new MeshCopy();
    const view = { part: 'outbound' } as never;
    const broken = { viewKey: 'broken', view, units: { cds: 'all' } as const, placements: [DEFAULT_PLACEMENT] };
    const answer = copy.run({ update: log.since(0), jobs: [broken] });
    assert.deepEqual([answer.kind, answer.version], ['failed', snapshot.version]);
    assert.equal(copy.run({ update: log.since(snapshot.version), jobs }).kind, 'done');
  });

  it('is empty after an update that could not be applied', () => {
    const copy = new MeshCopy();
    copy.run({ update: log.since(0), jobs: [] });
    const { version } = snapshot;
    const broken = {
      ...log.since(version),
      toVersion: version + 1,
      configs: new Map([['VirtualService/a/b', { kind: 'VirtualService', fingerprint: 'x' } as never]]),
    };
    assert.throws(() => copy.run({ update: broken, jobs }));
    assert.deepEqual(copy.run({ update: log.since(version), jobs }), { kind: 'behind', version: 0 });
    assert.equal(copy.run({ update: log.since(0), jobs }).kind, 'done');
  });
});
