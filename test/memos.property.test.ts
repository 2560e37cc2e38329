/**
 * Memos change no result: after any changes a mesh with memos switched off generates the same bytes as one with memos.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../src/core/memo.ts';
import * as fc from '../src/core/testing/properties.ts';
import { scopeIdOfView } from '../src/generate/index.ts';
import { Model } from '../src/model/index.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import { runJobs } from '../src/push/jobs/run-jobs.ts';
import type { AnyResource, ResourceKey } from '../src/resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../src/resources/mesh-config.ts';
import { jobsOf, made } from './golden-harness/jobs.ts';
import { FIRST, MESHES, merged, STEP } from './golden-harness/random-mesh.ts';

const STEPS = fc.array(fc.record({ edits: STEP, mesh: fc.option(fc.constantFrom(...MESHES), { freq: 8 }) }), {
  minLength: 1,
  maxLength: 5,
});

test('a mesh without memos generates the same bytes as one with memos', () => {
  const known = new Set<string>();
  fc.assert(
    fc.property(FIRST, STEPS, (base, steps) => {
      const [on, off] = [true, false].map((enabled) => {
        const memos = new Memos({ enabled });
        return Model.empty(DEFAULT_SETTINGS, MESHES[0] ?? defaultMeshConfig(), defaultMeshNetworks(), { memos });
      });
      assert.ok(on !== undefined && off !== undefined);
      const resources = new Map<ResourceKey, AnyResource>();
      for (const { edits, mesh } of [{ edits: base, mesh: null }, ...steps]) {
        const changes = merged(edits, resources);
        for (const model of [on, off]) model.apply({ changes, ...(mesh !== null && { mesh }), eventTime: 0 });
        const jobs = jobsOf(on.snapshot);
        assert.deepEqual(jobsOf(off.snapshot), jobs);
        // Scopes are acquired in one of them only: that makes no difference either.
        for (const { view } of jobs) on.acquire(scopeIdOfView(view));
        assert.deepEqual(made(runJobs(off.snapshot, jobs)), made(runJobs(on.snapshot, jobs)));
      }
      for (const [name, counts] of on.snapshot.memos.counts()) if (counts.made < counts.asked) known.add(name);
      for (const [name, counts] of off.snapshot.memos.counts()) assert.equal(counts.made, counts.asked, name);
    }),
    { numRuns: 6 },
  );
  assert.ok(known.size > 3, `only ${[...known].join()} were of use`);
});
