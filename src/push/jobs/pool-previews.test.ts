import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { emptySnapshot } from '../testing/mesh.ts';
import type { PreviewSource } from './generator.ts';
import { PoolGenerator } from './pool-generator.ts';

const dir = mkdtempSync(join(tmpdir(), 'previews-'));
const pools: PoolGenerator[] = [];
after(async () => {
  await Promise.all(pools.map((pool) => pool.close()));
  rmSync(dir, { recursive: true });
});

/**
 * A pool with one worker. Its previews give way when the pool says so, and are done when they are resumed; a worker
 * that was told to drop a preview says so with the next job.
 */
function poolOf(jobTimeoutMs?: number): PoolGenerator {
  const workerFile = join(dir, `worker-${pools.length}.mjs`);
  writeFileSync(
    workerFile,
    `globalThis.dropped = [];
     export function run(task) {
       const version = task.update.toVersion;
       globalThis.dropped.push(...(task.dropped ?? []));
       if (task.preview !== undefined) {
         while (task.preview.budgetMs === 0 || Atomics.load(task.giveWay, 0) === 0);
         return { kind: 'suspended', version, milliseconds: 1 };
       }
       if (task.resumed !== undefined)
         return { kind: 'previewed', version, result: { resources: [], views: [] }, milliseconds: 1 };
       const jobs = [{ dropped: globalThis.dropped, units: [], failures: [], lists: {} }];
       const reads = { reset: false, facts: [], sets: [] };
       const bytes = new ArrayBuffer(0);
       return { kind: 'done', version, generatedFrom: version, jobs, bytes, reads, milliseconds: 1 };
     }`,
  );
  const later = (ms: number, run: () => void) => void setTimeout(run, ms);
  const pool = new PoolGenerator({
    threads: 1,
    workerFile,
    onCrash: () => {},
    later,
    random: () => 0,
    ...(jobTimeoutMs !== undefined && { jobTimeoutMs }),
  });
  pools.push(pool);
  pool.begin(emptySnapshot());
  return pool;
}

const JOB = {
  key: 'view',
  lanes: () => [],
  takeJob: () => ({ viewKey: 'view', view: { part: 'gateway' } as never, units: {}, placements: [] }),
};
const NEVER = new AbortController().signal;

/** `taken` resolves when the preview is taken, `lost` when its worker is lost. @param budgetMs 0: it hangs */
function sourceOf(budgetMs = 1000) {
  const { promise: taken, resolve } = Promise.withResolvers<void>();
  const { promise: lost, resolve: onWorkerLost } = Promise.withResolvers<void>();
  const mesh = emptySnapshot();
  const takePreview = () => {
    resolve();
    return { task: { delta: {} as never, views: [], budgetMs }, meshes: { before: mesh, after: mesh } };
  };
  const source: PreviewSource = { takePreview, onWorkerLost };
  return { source, taken, lost };
}

describe('previews of a generation pool', () => {
  it('give way to jobs, and are continued afterwards', async () => {
    const pool = poolOf();
    const order: string[] = [];
    const { source, taken } = sourceOf();
    const preview = pool.preview(source, NEVER).then((result) => {
      order.push('preview');
      return result;
    });
    await taken;
    const jobs = ['a', 'b'].map((key) => pool.submit({ ...JOB, key }).then(() => order.push(key)));
    assert.deepEqual(await preview, { resources: [], views: [] });
    await Promise.all(jobs);
    assert.deepEqual(order, ['a', 'b', 'preview']);
  });

  it('are in progress one at a time, and leave nothing in a worker when their caller is gone', async () => {
    const pool = poolOf();
    const gone = new AbortController();
    const { source, taken } = sourceOf();
    const ended = assert.rejects(pool.preview(source, gone.signal), { code: 'deadline_exceeded' });
    await taken;
    await assert.rejects(pool.preview(sourceOf().source, NEVER), { code: 'unavailable' });
    gone.abort();
    await ended;
    const { answer } = await pool.submit(JOB);
    assert.deepEqual((answer as unknown as { dropped: number[] }).dropped, [1]);
  });

  it('report a worker that they ended, also when their caller is gone', { timeout: 120_000 }, async () => {
    const pool = poolOf(500);
    const gone = new AbortController();
    const { source, taken, lost } = sourceOf(0);
    const ended = assert.rejects(pool.preview(source, gone.signal), { code: 'deadline_exceeded' });
    await taken;
    gone.abort();
    await ended;
    await lost;
  });

  it('end with the pool', async () => {
    const pool = poolOf();
    const { source, taken } = sourceOf();
    const ended = assert.rejects(pool.preview(source, NEVER), { code: 'unavailable' });
    await taken;
    await pool.close();
    await ended;
    await assert.rejects(pool.preview(source, NEVER), { code: 'unavailable' });
  });
});
