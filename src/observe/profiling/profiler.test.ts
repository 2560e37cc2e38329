import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createProfiler } from './profiler.ts';

/** The test ends profiles. A closed connection ends the wait at once. */
const waits: { ms: number; end: () => void }[] = [];
const profiler = createProfiler(
  (ms, signal) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('hung up')));
      waits.push({ ms, end: () => resolve(undefined) });
      waiting.shift()?.();
    }),
);
const waiting: (() => void)[] = [];

/** A thread that computes without end, with a name. */
const BUSY = `
  globalThis[Symbol.for('meshd.thread')] = 'computing';
  const kept = [];
  let count = 0;
  function computeMuch() {
    const end = performance.now() + 20;
    while (performance.now() < end) kept[count++ % 50_000] = new Array(100).fill(count);
  }
  setInterval(computeMuch, 1);
`;

const withoutGo = spawnSync('go', ['version']).status === 0 ? false : 'needs Go';
const folder = mkdtempSync(join(tmpdir(), 'meshd-profiles-'));
const worker = new Worker(BUSY, { eval: true });

let server: Server;
let base = '';
before(async () => {
  server = createServer((request, response) => {
    if (profiler.handles(request)) void profiler.answer(request, response);
    else response.writeHead(404).end('other');
  });
  // A connection that is closed because it is idle may just be used again.
  server.keepAliveTimeout = 0;
  server.listen(0, '127.0.0.1');
  await Promise.all([once(server, 'listening'), once(worker, 'online')]);
  const address = server.address();
  base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
});
after(async () => {
  server.closeAllConnections();
  server.close();
  await worker.terminate();
  rmSync(folder, { recursive: true });
});

/** Starts a profile and resolves when it runs. */
async function startProfile(path: string, signal?: AbortSignal) {
  const started = new Promise<void>((resolve) => waiting.push(resolve));
  const answer = fetch(`${base}/debug/pprof/${path}`, signal === undefined ? {} : { signal });
  await Promise.race([started, answer.then(({ status }) => assert.notEqual(status, 503, 'another profile runs'))]);
  const wait = waits.pop();
  assert.ok(wait);
  return { answer, wait };
}

/** Lets the busy thread work for 0.4 s of its own time. */
async function workOn(): Promise<void> {
  const active = (): number => worker.performance.eventLoopUtilization().active;
  const end = active() + 400;
  while (active() < end) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function profileOf(path: string): Promise<Response> {
  const { answer, wait } = await startProfile(path);
  await workOn();
  wait.end();
  const response = await answer;
  assert.equal(response.status, 200, path);
  return response;
}

/** What `go tool pprof -raw` prints of a profile. */
async function rawOf(path: string): Promise<string> {
  const file = join(folder, 'profile');
  writeFileSync(file, Buffer.from(await (await profileOf(path)).arrayBuffer()));
  return execFileSync('go', ['tool', 'pprof', '-raw', file], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

test('go tool pprof reads the CPU time, the memory in use and all memory of a thread', {
  skip: withoutGo,
}, async () => {
  const { threadId } = worker;
  const cpu = await rawOf(`profile?thread=${threadId}`);
  assert.match(cpu, /PeriodType: cpu nanoseconds\nPeriod: 10000000\n/);
  assert.match(cpu, /samples\/count cpu\/nanoseconds\[dflt\]/);
  assert.match(cpu, /computeMuch/);
  assert.doesNotMatch(cpu, /\(idle\)/);
  const heap = await rawOf(`heap?thread=${threadId}`);
  assert.match(heap, /inuse_space\/bytes/);
  assert.match(heap, /computeMuch/);
  assert.match(await rawOf(`allocs?thread=${threadId}`), /alloc_space\/bytes[\s\S]*computeMuch/);
});

test('the frames of the main thread have files and lines', { skip: withoutGo }, async () => {
  const { answer, wait } = await startProfile('profile');
  const end = performance.now() + 200;
  while (performance.now() < end) JSON.stringify(waits);
  wait.end();
  const file = join(folder, 'main');
  writeFileSync(file, Buffer.from(await (await answer).arrayBuffer()));
  const printed = execFileSync('go', ['tool', 'pprof', '-raw', file], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  assert.match(printed, /profiler\.test\.ts:\d+/);
});

test('Chrome reads the CPU time, memory and events', async () => {
  const { threadId } = worker;
  const cpu = await profileOf(`profile?format=chrome&seconds=2&thread=${threadId}`);
  assert.match(cpu.headers.get('content-disposition') ?? '', /\.cpuprofile"$/);
  const profile = (await cpu.json()) as { nodes: { callFrame: { functionName: string } }[]; endTime: number };
  assert.ok(profile.nodes.some(({ callFrame }) => callFrame.functionName === 'computeMuch'));
  const heap = await profileOf(`heap?format=chrome&thread=${threadId}`);
  assert.match(heap.headers.get('content-disposition') ?? '', /\.heapprofile"$/);
  assert.ok('head' in ((await heap.json()) as object));
  const trace = (await (await profileOf('trace')).json()) as { traceEvents: { ph: string; ts: number }[] };
  assert.ok(trace.traceEvents.length > 0);
  assert.ok(trace.traceEvents.every(({ ph, ts }) => typeof ph === 'string' && typeof ts === 'number'));
});

test('the index lists the threads, and the command line is that of the process', async () => {
  const index = await (await fetch(`${base}/debug/pprof/`)).text();
  assert.match(index, /^0 {2}main$/m);
  assert.match(index, new RegExp(`^${worker.threadId}  computing$`, 'm'));
  assert.equal(await (await fetch(`${base}/debug/pprof/cmdline`)).text(), process.argv.join('\0'));
});

test('only one profile is taken at a time, for the time that was asked for', async () => {
  const { answer, wait } = await startProfile('profile?seconds=2');
  assert.equal(wait.ms, 2000);
  assert.equal((await fetch(`${base}/debug/pprof/heap`)).status, 503);
  wait.end();
  assert.equal((await answer).status, 200);
});

test('a closed connection ends its profile', async () => {
  const abort = new AbortController();
  const { answer } = await startProfile('profile', abort.signal);
  abort.abort();
  await assert.rejects(answer);
  // The server notices it later. Until then it answers that it is busy.
  for (;;) {
    const next = new Promise<'busy' | 'running'>((resolve) => waiting.push(() => resolve('running')));
    const again = fetch(`${base}/debug/pprof/profile`);
    if ((await Promise.race([next, again.then(() => 'busy' as const)])) === 'running') {
      waits.pop()?.end();
      assert.equal((await again).status, 200);
      return;
    }
    waiting.pop();
  }
});

test('a heap snapshot is streamed', async () => {
  const response = await fetch(`${base}/debug/pprof/heap?format=snapshot`);
  assert.match(response.headers.get('content-disposition') ?? '', /\.heapsnapshot"$/);
  assert.ok('snapshot' in ((await response.json()) as object));
});

test('invalid requests are refused', async () => {
  for (const [path, status] of [
    ['/debug/pprof', 200],
    ['/debug/pprof/nosuch', 404],
    ['/debug/pprof/toString', 404],
    ['/debug/pprof/profile?seconds=NaN', 400],
    ['/debug/pprof/profile?seconds=301', 400],
    ['/debug/pprof/trace?seconds=61', 400],
    ['/debug/pprof/profile?seconds=-1', 400],
    ['/debug/pprof/profile?format=snapshot', 400],
    ['/debug/pprof/heap?format=snapshot&thread=1', 400],
    ['/debug/pprof/profile?thread=main', 400],
    ['/debug/pprof/profile?thread=9999', 404],
    ['/debug/pprofx', 404],
  ] as const) {
    assert.equal((await fetch(base + path)).status, status, path);
  }
  assert.equal((await fetch(`${base}/debug/pprof/heap`, { method: 'POST' })).status, 405);
});
