/**
 * A worker that interrupts its jobs for others generates the same bytes as without interruptions: each job from the
 * snapshot at which it began, in whatever order jobs are begun, resumed and dropped, and whatever changes meanwhile. An
 * answer names units that earlier answers have sent, and no others.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../src/core/testing/properties.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import { applyChanges, createModel } from '../src/model/testing/steps.ts';
import type { Snapshot } from '../src/model/types/types.ts';
import { MeshCopy } from '../src/push/jobs/mesh-copy.ts';
import { MeshCopyLog } from '../src/push/jobs/mesh-copy-log.ts';
import { runJobs } from '../src/push/jobs/run-jobs.ts';
import type { GenerateAnswer, GenerateJob, JobAnswer } from '../src/push/protocol.ts';
import type { AnyResource, ResourceKey } from '../src/resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../src/resources/mesh-config.ts';
import { jobsOf } from './golden-harness/jobs.ts';
import { FIRST, merged, STEP } from './golden-harness/random-mesh.ts';

/** What happens next: a change of the mesh, or a slice of some job; a number picks one of those that are possible. */
const STEPS = fc.array(
  fc.oneof(
    fc.record({ edits: STEP }),
    fc.record({ begin: fc.nat() }),
    { weight: 6, arbitrary: fc.record({ resume: fc.nat(), giveWay: fc.boolean() }) },
    fc.record({ drop: fc.nat() }),
  ),
  { minLength: 20, maxLength: 120 },
);

interface Begun {
  readonly id: number;
  readonly job: GenerateJob;
  readonly snapshot: Snapshot;
}

interface SentResource {
  readonly name: string;
  readonly version: string;
  readonly bytes: string;
}

/** The main thread's side: the units that were sent, by number. */
class Received {
  readonly #units = new Map<number, readonly SentResource[]>();

  /** The resources by type, unit and placement. */
  take({ units }: JobAnswer, bytes: ArrayBuffer): ReadonlyMap<string, readonly SentResource[]> {
    const taken = units.map(({ type, unit, placements, number, resources, base }) => {
      const sent = resources?.map(({ name, version, offset, length }) => {
        return { name, version, bytes: Buffer.from(bytes, offset, length).toString('base64') };
      });
      const known = this.#units.get(base?.number ?? number);
      assert.ok(sent !== undefined || known !== undefined, `${type} ${unit} was not sent`);
      const kept = base === undefined ? [] : (known ?? []).filter(({ name }) => !isReplaced(name, base.gone, sent));
      const all = sent === undefined ? (known ?? []) : [...kept, ...sent];
      if (sent !== undefined) this.#units.set(number, all);
      const sorted = all.toSorted((a, b) => (a.name < b.name ? -1 : 1));
      return [`${type} ${unit} ${placements?.join() ?? ''}`, sorted] as const;
    });
    return new Map(taken);
  }
}

function isReplaced(name: string, gone: readonly string[], sent: readonly SentResource[] | undefined): boolean {
  return gone.includes(name) || sent?.some((resource) => resource.name === name) === true;
}

test('jobs that are interrupted for others generate what they would without interruption', () => {
  const seen = { resumed: 0, done: 0, changedMeanwhile: 0 };
  fc.assert(
    fc.property(FIRST, STEPS, (base, steps) => {
      let snapshot = createModel(DEFAULT_SETTINGS, defaultMeshConfig(), defaultMeshNetworks());
      const log = new MeshCopyLog(snapshot);
      const resources = new Map<ResourceKey, AnyResource>();
      const copy = new MeshCopy({ sliceMs: 0 });
      const received = new Received();
      const giveWay = new Int32Array(new SharedArrayBuffer(4));
      const suspended: Begun[] = [];
      let [version, lastId] = [0, 0];
      const ended = (begun: Begun, answer: GenerateAnswer) => {
        assert.ok(answer.kind === 'done' || answer.kind === 'suspended', answer.kind);
        version = answer.version;
        if (answer.kind === 'suspended') {
          suspended.push(begun);
          return;
        }
        const [made] = answer.jobs;
        const expected = runJobs(begun.snapshot, [begun.job]);
        const [whole] = expected.jobs;
        assert.ok(made !== undefined && whole !== undefined);
        assert.equal(answer.generatedFrom, begun.snapshot.version);
        assert.deepEqual(received.take(made, answer.bytes), new Received().take(whole, expected.bytes));
        assert.deepEqual([made.complete, made.findings.length], [whole.complete, whole.findings.length]);
        seen.done++;
        if (begun.snapshot.version < version) seen.changedMeanwhile++;
      };
      const change = (edits: typeof base) => {
        const step = applyChanges(snapshot, { changes: merged(edits, resources) });
        snapshot = step.snapshot;
        log.append(snapshot, step.delta);
      };
      change(base);
      for (const step of [...steps, ...steps]) {
        if ('edits' in step) change(step.edits);
        else if ('begin' in step) {
          const jobs = jobsOf(snapshot);
          const job = jobs[step.begin % jobs.length];
          if (job === undefined) continue;
          giveWay[0] = 1;
          const id = ++lastId;
          const answer = copy.run({ update: log.since(version), jobs: [job], id, giveWay });
          ended({ id, job, snapshot }, answer);
        } else if ('resume' in step) {
          const [begun] = suspended.splice(step.resume % Math.max(1, suspended.length), 1);
          if (begun === undefined) continue;
          giveWay[0] = step.giveWay ? 1 : 0;
          seen.resumed++;
          ended(begun, copy.run({ update: log.since(version), jobs: [], resumed: begun.id, giveWay }));
        } else {
          const [begun] = suspended.splice(step.drop % Math.max(1, suspended.length), 1);
          if (begun === undefined) continue;
          const answer = copy.run({ update: log.since(version), jobs: [], dropped: [begun.id] });
          version = answer.version;
        }
        assert.equal(copy.suspended, suspended.length);
      }
    }),
    { numRuns: 25 },
  );
  for (const [what, count] of Object.entries(seen)) assert.ok(count > 0, `${what}: ${count}`);
});
