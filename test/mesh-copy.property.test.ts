/**
 * Workers compared with the main thread: after any changes, a worker generates the same bytes as the main thread,
 * however late and in however many updates it received the changes, even after a restart.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../src/core/testing/properties.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import { applyChanges, createModel } from '../src/model/testing/steps.ts';
import { MeshCopy } from '../src/push/jobs/mesh-copy.ts';
import { MeshCopyLog } from '../src/push/jobs/mesh-copy-log.ts';
import { runJobs } from '../src/push/jobs/run-jobs.ts';
import type { GenerateTask } from '../src/push/protocol.ts';
import type { AnyResource, ResourceKey } from '../src/resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../src/resources/mesh-config.ts';
import { jobsOf, made } from './golden-harness/jobs.ts';
import { FIRST, HOSTS, MESHES, merged, NETWORKS, STEP } from './golden-harness/random-mesh.ts';

const WORKERS = 3;

interface Worker {
  copy: MeshCopy;
  version: number;
}

const seldom = <T>(values: readonly T[]) =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...values) });

const STEPS = fc.array(
  fc.record({
    edits: STEP,
    mesh: seldom(MESHES),
    networks: seldom(NETWORKS),
    hosts: seldom(HOSTS),
    /** The workers that get a task after the change, and whether they were restarted before. */
    asked: fc.subarray(Array.from({ length: WORKERS }, (_, index) => index)),
    died: fc.subarray(
      Array.from({ length: WORKERS }, (_, index) => index),
      { maxLength: 1 },
    ),
    released: fc.constantFrom<GenerateTask['released']>(undefined, undefined, 'all'),
    trim: fc.boolean(),
  }),
  { minLength: 1, maxLength: 12 },
);

test('workers that lag, skip updates or restart generate the same bytes as the main thread', () => {
  fc.assert(
    fc.property(FIRST, STEPS, fc.boolean(), (base, steps, edsForHeadless) => {
      const settings = { ...DEFAULT_SETTINGS, edsForHeadless };
      let snapshot = createModel(settings, MESHES[0] ?? defaultMeshConfig(), defaultMeshNetworks());
      const log = new MeshCopyLog(snapshot);
      const resources = new Map<ResourceKey, AnyResource>();
      const workers = Array.from({ length: WORKERS }, (): Worker => ({ copy: new MeshCopy(), version: 0 }));
      const none = {
        mesh: undefined,
        networks: undefined,
        hosts: undefined,
        asked: [],
        died: [],
        released: undefined,
        trim: false,
      };
      for (const { edits, mesh, networks, hosts, asked, died, released, trim } of [
        { ...none, edits: base },
        ...steps,
      ]) {
        const step = applyChanges(snapshot, {
          changes: merged(edits, resources),
          ...(mesh && { mesh }),
          ...(networks && { networks }),
          ...(hosts && { resolvedHosts: hosts }),
        });
        snapshot = step.snapshot;
        log.append(snapshot, step.delta);
        for (const index of died) workers[index] = { copy: new MeshCopy(), version: 0 };
        const jobs = jobsOf(snapshot);
        const expected = asked.length === 0 ? undefined : made(runJobs(snapshot, jobs));
        for (const index of asked) {
          const worker = workers[index];
          if (worker === undefined) continue;
          const update = log.since(worker.version);
          // Cloned as between threads.
          const task = structuredClone({ update, jobs, forget: true as const, ...(released && { released }) });
          const answer = worker.copy.run(task);
          assert.ok(answer.kind === 'done', answer.kind === 'failed' ? answer.message : answer.kind);
          assert.equal(answer.version, snapshot.version);
          worker.version = answer.version;
          assert.deepEqual(made(answer), expected);
        }
        if (trim) log.trim(Math.min(...workers.map(({ version }) => version || snapshot.version)));
      }
    }),
    { numRuns: 12 },
  );
});
