import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { emptySnapshot } from '../testing/mesh.ts';
import { PoolGenerator } from './pool-generator.ts';

const dir = mkdtempSync(join(tmpdir(), 'generator-'));
const pools: PoolGenerator[] = [];
after(async () => {
  await Promise.all(pools.map((pool) => pool.close()));
  rmSync(dir, { recursive: true });
});

/** A pool whose workers run this body for each task. */
function poolOf(body: string, crashes: unknown[] = [], jobTimeoutMs = 10_000, threads = 1): PoolGenerator {
  const pool = waitingPoolOf(body, crashes, jobTimeoutMs, threads);
  pool.begin(emptySnapshot());
  return pool;
}

/** The same before there is a snapshot. */
function waitingPoolOf(body: string, crashes: unknown[] = [], jobTimeoutMs = 10_000, threads = 1): PoolGenerator {
  const workerFile = join(dir, `worker-${pools.length}.mjs`);
  writeFileSync(workerFile, `let runs = 0;\nexport function run(task) { runs++; ${body} }\n`);
  const onCrash = (error: unknown) => crashes.push(error);
  const later = (ms: number, run: () => void) => void setTimeout(run, ms);
  const pool = new PoolGenerator({ threads, workerFile, onCrash, later, random: () => 0, jobTimeoutMs });
  pools.push(pool);
  return pool;
}

function jobOf(key: string, caller = 'caller') {
  return {
    key,
    lanes: () => [{ group: caller, caller }],
    takeJob: () => ({ viewKey: key, view: { part: 'gateway' } as never, units: {}, placements: [] }),
  };
}

const JOB = jobOf('view');
/** The rest of an answer without failures. */
const NO_MORE = { failures: [], lists: {} };
/** Code of a worker that returns an answer with one job. */
const doneWith = (job: string, reads = 'reads: { reset: false, facts: [], sets: [] }'): string =>
  `const jobs = [{ ${job}, failures: [], lists: {} }];
   const bytes = new ArrayBuffer(0);
   const version = task.update.toVersion;
   return { kind: 'done', version, generatedFrom: version, jobs, bytes, ${reads}, milliseconds: 1 };`;
const DONE = doneWith('from: task.update.fromVersion, runs, units: []');

describe('generation pool', () => {
  it('rejects a job that throws at once, without building the mesh copy again', async () => {
    const crashes: unknown[] = [];
    const pool = poolOf(
      `if (runs === 2) return { kind: 'failed', version: task.update.toVersion, message: 'cannot', milliseconds: 1 }; ${DONE}`,
      crashes,
    );
    await assert.rejects(pool.submit(JOB), { code: 'internal', message: 'cannot' });
    const { answer } = await pool.submit(JOB);
    assert.deepEqual(answer, { from: 1, runs: 3, units: [], ...NO_MORE });
    assert.deepEqual(crashes, []);
  });

  it('has updated its workers before the first job when it was prepared', async () => {
    const pool = poolOf(DONE);
    pool.prepare();
    const { answer } = await pool.submit(JOB);
    assert.deepEqual(answer, { from: 1, runs: 2, units: [], ...NO_MORE });
  });

  it('keeps jobs waiting until there is a snapshot', async () => {
    const pool = waitingPoolOf(DONE);
    const { version } = emptySnapshot();
    const submitted = pool.submit(JOB);
    pool.begin({ ...emptySnapshot(), version: version + 6 });
    assert.equal((await submitted).version, version + 6);
  });

  it('sends everything to the successor of a worker that died between jobs', async () => {
    const pool = poolOf(
      `if (task.update.fromVersion !== 0 && runs === 1) return { kind: 'behind', version: 0 };
       ${DONE}`,
    );
    await pool.submit(JOB);
    await Promise.all(pool.threads.map((thread) => thread.terminate()));
    const { answer } = await pool.submit(JOB);
    // It got the whole mesh copy before the job, in a task of its own: loading its code is no time of the job.
    assert.deepEqual(answer, { from: 1, runs: 2, units: [], ...NO_MORE });
  });

  it('fails a job whose answer names unknown reads, and has the worker send everything with the next', async () => {
    const pool = poolOf(
      `const units = [{ type: 'cds', unit: 'web', number: 7, resources: [], reads: runs === 2 ? 5 : 0 }];
       const reads = { reset: task.forget === true, facts: ['mesh'], sets: Uint32Array.of(1, 0) };
       ${doneWith('forget: task.forget, units', 'reads')}`,
    );
    await assert.rejects(pool.submit(JOB), { code: 'internal', message: /names reads that it has not sent/ });
    const { answer, reads } = await pool.submit(JOB);
    assert.deepEqual(answer, { forget: true, units: answer.units, ...NO_MORE });
    assert.deepEqual(reads[0]?.facts, ['mesh']);
  });

  it('makes a worker send again what it only names, when that was freed', async () => {
    const pool = poolOf(
      `const resources = task.forget || runs === 2 ? [] : undefined;
       const units = [{ type: 'cds', unit: 'web', number: runs === 4 ? 8 : 7, reads: -1, resources }];
       ${doneWith('forget: task.forget, runs, units')}`,
    );
    const first = await pool.submit(JOB);
    assert.deepEqual(
      [first.answer, first.recalled.size],
      [{ forget: undefined, runs: 2, units: first.answer.units, ...NO_MORE }, 0],
    );
    const kept = [{ name: 'web' }] as never;
    first.receivedUnits.receive(7, kept);
    const second = await pool.submit(JOB);
    assert.deepEqual([second.answer.units[0]?.resources, second.recalled.get(7)], [undefined, kept]);
    // The third job refers to numbers that were never sent: it is repeated, and then sends the resources.
    const third = await pool.submit(JOB);
    assert.deepEqual(third.answer, { forget: true, runs: 5, units: third.answer.units, ...NO_MORE });
    assert.deepEqual(third.answer.units[0]?.resources, []);
  });

  it('makes a worker send everything again after another one has repeated its job', async () => {
    const [first, second] = [join(dir, 'first'), join(dir, 'second')];
    // Jobs with the path of a file wait until it exists.
    const pool = poolOf(
      `const { existsSync } = process.getBuiltinModule('node:fs');
       const key = task.jobs[0]?.viewKey ?? '';
       const turn = new Int32Array(new SharedArrayBuffer(4));
       while (key.startsWith('/') && !existsSync(key)) Atomics.wait(turn, 0, 0, 5);
       const names = key === ${JSON.stringify(second)} && !task.forget;
       const units = [{ type: 'cds', unit: 'web', number: 9, reads: -1, resources: names ? undefined : [] }];
       ${doneWith('forget: task.forget, units')}`,
      [],
      10_000,
      2,
    );
    const sendsAll = async (job: ReturnType<PoolGenerator['submit']>): Promise<boolean> => {
      const { answer } = await job;
      return 'forget' in answer && answer.forget === true;
    };
    /** Keeps a worker busy while the other one has a job. */
    const beside = async (other: () => Promise<void>): Promise<void> => {
      const busy = pool.submit(jobOf(first));
      await other();
      writeFileSync(first, '');
      await busy;
      await setImmediate();
      rmSync(first);
    };
    await beside(async () => void (await pool.submit(JOB)));
    let repeated: Promise<boolean> | undefined;
    await beside(async () => {
      repeated = sendsAll(pool.submit(jobOf(second)));
    });
    writeFileSync(second, '');
    // The first worker, which is idle, repeats it.
    assert.equal(await repeated, true);
    await setImmediate();
    await beside(async () => assert.ok(await sendsAll(pool.submit(JOB))));
  });

  it('does not mix up the numbers of a new worker with those of the one that died', async () => {
    const pool = poolOf(
      `if (task.update.fromVersion !== 0 && runs === 1) return { kind: 'behind', version: 0 };
       const units = [{ type: 'cds', unit: 'web', number: 7, reads: -1, resources: task.forget ? [] : undefined }];
       ${doneWith('units')}`,
    );
    const first = await pool.submit(JOB);
    const kept = [{ name: 'web' }] as never;
    first.receivedUnits.receive(7, kept);
    assert.equal((await pool.submit(JOB)).recalled.get(7), kept);
    await Promise.all(pool.threads.map((thread) => thread.terminate()));
    const { answer, recalled } = await pool.submit(JOB);
    assert.deepEqual([answer.units[0]?.resources, recalled.size], [[], 0]);
  });

  it('terminates a worker that hangs, rejects its job, and continues with the others', async () => {
    const pool = poolOf(`if (task.jobs[0]?.viewKey === 'poison') for (;;); ${DONE}`, [], 200);
    const poison = assert.rejects(pool.submit(jobOf('poison')), {
      code: 'internal',
      message: 'took longer than 0.2 s',
    });
    const other = pool.submit(JOB);
    await poison;
    await other;
  });

  it('does not delay other jobs while one is retried', async () => {
    const pool = poolOf(`if (task.jobs[0]?.viewKey === 'poison') for (;;); ${DONE}`);
    // The only worker of all others stays free.
    const poison = assert.rejects(pool.submit(jobOf('poison'), { isolated: true }), { code: 'unavailable' });
    for (let other = 0; other < 3; other++) await pool.submit(jobOf(`other ${other}`));
    await pool.close();
    await poison;
  });

  it('rejects the job of a worker that dies, and runs the next on a new worker', async () => {
    const pool = poolOf(`if (task.jobs[0]?.viewKey === 'poison') process.exit(3); ${DONE}`);
    await assert.rejects(pool.submit(jobOf('poison')), { code: 'internal', message: /exited with code: 3/ });
    const { answer } = await pool.submit(JOB);
    assert.deepEqual(answer, { from: 1, runs: 2, units: [], ...NO_MORE });
  });

  it('does not reject a job because a mesh copy cannot be built, and tries to build it again', async () => {
    const crashes: unknown[] = [];
    const file = join(dir, 'fails-twice');
    writeFileSync(file, '');
    const pool = poolOf(
      `const { appendFileSync, readFileSync } = process.getBuiltinModule('node:fs');
       if (task.update.fromVersion === 0 && readFileSync('${file}').length < 2) {
         appendFileSync('${file}', 'x');
         throw new Error('no memory');
       }
       ${DONE}`,
      crashes,
    );
    await pool.submit(JOB);
    assert.equal(crashes.length, 2);
  });

  it('shares its time among callers, and cancels jobs that nobody needs any more', async () => {
    const pool = waitingPoolOf(DONE);
    const served: string[] = [];
    const submit = (key: string, caller: string) => {
      const job = jobOf(key, caller);
      const done = pool.submit(job).then(() => served.push(key));
      return { job, done };
    };
    const greedy = Array.from({ length: 200 }, (_, index) => submit(`greedy ${index}`, 'greedy'));
    submit('honest 1', 'honest');
    const last = submit('honest 2', 'honest');
    for (const { job } of greedy.slice(3)) assert.ok(pool.withdraw(job));
    assert.ok(!pool.withdraw(jobOf('never submitted')));
    pool.begin(emptySnapshot());
    await last.done;
    assert.deepEqual(served, ['greedy 0', 'honest 1', 'greedy 1', 'honest 2']);
    assert.equal(pool.withdraw(last.job), false);
  });

  it('has a long job give way to others, which have used less time, and continues it where it was', async () => {
    // Its first slice ends when others wait, and it is done after the third.
    const pool = poolOf(
      `if (task.jobs[0]?.viewKey === 'long') {
         globalThis.slices = 0;
         while (Atomics.load(task.giveWay, 0) === 0);
       }
       if (task.jobs[0]?.viewKey === 'long' || task.resumed !== undefined) {
         globalThis.slices++;
         if (globalThis.slices < 3) return { kind: 'suspended', version: task.update.toVersion, milliseconds: 50 };
       }
       ${doneWith('slices: globalThis.slices, resumed: task.resumed !== undefined, units: []')}`,
    );
    pool.prepare();
    const order: string[] = [];
    const submit = (key: string, caller: string) =>
      pool.submit(jobOf(key, caller)).then(({ answer, milliseconds }) => {
        order.push(key);
        return { ...answer, milliseconds };
      });
    const long = submit('long', 'greedy');
    await Promise.all([submit('first', 'honest'), submit('second', 'honest')]);
    assert.deepEqual(await long, { slices: 3, resumed: true, units: [], ...NO_MORE, milliseconds: 101 });
    assert.deepEqual(order, ['first', 'second', 'long']);
  });

  it('begins a suspended job again when its worker has died', async () => {
    const pool = poolOf(
      `if (task.resumed !== undefined) return { kind: 'lost', version: task.update.toVersion };
       if (task.jobs[0]?.viewKey === 'long' && runs === 2) {
         while (Atomics.load(task.giveWay, 0) === 0);
         return { kind: 'suspended', version: task.update.toVersion, milliseconds: 50 };
       }
       ${doneWith('runs, units: []')}`,
    );
    const long = pool.submit(jobOf('long', 'greedy'));
    await pool.submit(JOB);
    assert.deepEqual((await long).answer, { runs: 5, units: [], ...NO_MORE });
  });

  it('drops a suspended job that nobody needs any more, and gives one up that takes too long', async () => {
    const pool = poolOf(
      `globalThis.dropped = [...(globalThis.dropped ?? []), ...(task.dropped ?? [])];
       const version = task.update.toVersion;
       if (task.jobs[0]?.viewKey === 'expensive') return { kind: 'suspended', version, milliseconds: 60_001 };
       if (task.jobs[0]?.viewKey === 'long' || task.resumed !== undefined) {
         while (Atomics.load(task.giveWay, 0) === 0);
         return { kind: 'suspended', version, milliseconds: 50 };
       }
       const answer = () => { ${doneWith('dropped: globalThis.dropped, units: []')} };
       return answer();`,
    );
    const source = jobOf('long', 'greedy');
    void pool.submit(source);
    const second = { ...NO_MORE, units: [] };
    assert.deepEqual((await pool.submit(JOB)).answer, { dropped: [], ...second });
    // It has used more time than the next caller, and so waits.
    const last = pool.submit(jobOf('last', 'other'));
    assert.ok(pool.withdraw(source));
    assert.deepEqual((await last).answer, { dropped: [1], ...second });
    const expensive = pool.submit(jobOf('expensive', 'greedy'));
    await assert.rejects(expensive, { code: 'internal', message: /took longer than 60 s/ });
    assert.deepEqual((await pool.submit(JOB)).answer, { dropped: [1, 4], ...second });
  });

  it('rejects waiting and new jobs when it is closed', async () => {
    const pool = poolOf('return new Promise(() => {});');
    const submitted = [pool.submit(JOB), pool.submit(JOB)];
    const refused = submitted.map((job) => assert.rejects(job, { code: 'unavailable' }));
    await pool.close();
    await Promise.all(refused);
    await assert.rejects(pool.submit(JOB), { code: 'unavailable' });
  });
});
