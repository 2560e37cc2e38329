import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { PoolGenerator } from './generator.ts';
import { emptySnapshot } from './testing.ts';

const dir = mkdtempSync(join(tmpdir(), 'generator-'));
const pools: PoolGenerator[] = [];
after(async () => {
  await Promise.all(pools.map((pool) => pool.close()));
  rmSync(dir, { recursive: true });
});

/** A pool whose workers run this body for each task. */
function poolOf(body: string, crashes: unknown[] = [], jobTimeoutMs = 10_000): PoolGenerator {
  const pool = waitingPoolOf(body, crashes, jobTimeoutMs);
  pool.begin(emptySnapshot());
  return pool;
}

/** The same before there is a snapshot. */
function waitingPoolOf(body: string, crashes: unknown[] = [], jobTimeoutMs = 10_000): PoolGenerator {
  const workerFile = join(dir, `worker-${pools.length}.mjs`);
  writeFileSync(workerFile, `let runs = 0;\nexport function run(task) { runs++; ${body} }\n`);
  const onCrash = (error: unknown) => crashes.push(error);
  const pool = new PoolGenerator({ threads: 1, workerFile, onCrash, jobTimeoutMs });
  pools.push(pool);
  return pool;
}

const JOB = { key: 'view', takeJob: () => ({ viewKey: 'view', view: { part: 'gateway' } as never, units: {} }) };
const DONE = `return { kind: 'done', version: task.update.toVersion, jobs: [{ from: task.update.fromVersion, runs, units: [] }], bytes: new ArrayBuffer(0), milliseconds: 0 };`;

describe('generation pool', () => {
  it('gives a job up that throws, at once and without asking for the replica again', async () => {
    const crashes: unknown[] = [];
    const pool = poolOf(
      `if (runs === 1) return { kind: 'failed', version: task.update.toVersion, message: 'cannot' }; ${DONE}`,
      crashes,
    );
    await assert.rejects(pool.submit(JOB), { code: 'internal', message: 'cannot' });
    const { answer } = await pool.submit(JOB);
    assert.deepEqual(answer, { from: 1, runs: 2, units: [] });
    assert.deepEqual(crashes, []);
  });

  it('has told its workers everything before the first job when it was prepared', async () => {
    const pool = poolOf(DONE);
    pool.prepare();
    const { answer } = await pool.submit(JOB);
    assert.deepEqual(answer, { from: 1, runs: 2, units: [] });
  });

  it('has jobs wait until there is a snapshot', async () => {
    const pool = waitingPoolOf(DONE);
    const { version } = emptySnapshot();
    const submitted = pool.submit(JOB);
    pool.begin({ ...emptySnapshot(), version: version + 6 });
    assert.equal((await submitted).version, version + 6);
  });

  it('tells everything to the successor of a worker that died between jobs', async () => {
    const pool = poolOf(
      `if (task.update.fromVersion !== 0 && runs === 1) return { kind: 'behind', version: 0 };
       ${DONE}`,
    );
    await pool.submit(JOB);
    await Promise.all(pool.threads.map((thread) => thread.terminate()));
    const { answer } = await pool.submit(JOB);
    assert.equal((answer as unknown as { from: number }).from, 0);
  });

  it('has a worker tell again what it only names, when nobody has that any more', async () => {
    const pool = poolOf(
      `const units = [{ type: 'cds', unit: 'web', number: runs === 3 ? 8 : 7, resources: task.forget ? [] : undefined }];
       return { kind: 'done', version: task.update.toVersion, jobs: [{ forget: task.forget, runs, units }], bytes: new ArrayBuffer(0), milliseconds: 0 };`,
    );
    // Before its first job a worker has said nothing.
    const first = await pool.submit(JOB);
    assert.deepEqual([first.answer, first.recalled.size], [{ forget: true, runs: 1, units: first.answer.units }, 0]);
    const kept = [{ name: 'web' }] as never;
    first.heard.hear(7, kept);
    const second = await pool.submit(JOB);
    assert.deepEqual([second.answer.units[0]?.resources, second.recalled.get(7)], [undefined, kept]);
    // The third run names what was never told: it is repeated as a fourth, which tells.
    const third = await pool.submit(JOB);
    assert.deepEqual(third.answer, { forget: true, runs: 4, units: third.answer.units });
    assert.deepEqual(third.answer.units[0]?.resources, []);
  });

  it('ends a worker that hangs, and gives its job up after three attempts', async () => {
    const crashes: unknown[] = [];
    const pool = poolOf('for (;;);', crashes, 100);
    await assert.rejects(pool.submit(JOB), { code: 'internal', message: 'generating view failed 3 times' });
    assert.equal(crashes.length, 3);
  });

  it('refuses jobs that wait and jobs that come when it is closed', async () => {
    const pool = poolOf('return new Promise(() => {});');
    const submitted = [pool.submit(JOB), pool.submit(JOB)];
    const refused = submitted.map((job) => assert.rejects(job, { code: 'unavailable' }));
    await pool.close();
    await Promise.all(refused);
    await assert.rejects(pool.submit(JOB), { code: 'unavailable' });
  });
});
