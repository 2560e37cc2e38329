import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { after, before, test } from 'node:test';
import { createProfiler } from './profiling.ts';

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

let server: Server;
let base = '';
before(async () => {
  server = createServer((request, response) => {
    if (profiler.handles(request)) void profiler.answer(request, response);
    else response.writeHead(404).end('other');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

/** Starts a CPU profile and resolves when it runs. */
async function startProfile(query: string, signal?: AbortSignal) {
  const started = new Promise<void>((resolve) => waiting.push(resolve));
  const answer = fetch(`${base}/debug/pprof/profile${query}`, signal === undefined ? {} : { signal });
  await started;
  const wait = waits.pop();
  assert.ok(wait);
  return { answer, wait };
}

test('a CPU profile covers the requested seconds', async () => {
  const { answer, wait } = await startProfile('?seconds=2');
  assert.equal(wait.ms, 2000);
  wait.end();
  const response = await answer;
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-disposition') ?? '', /\.cpuprofile"$/);
  const profile = JSON.parse(await response.text());
  assert.ok(Array.isArray(profile.nodes) && profile.endTime >= profile.startTime);
});

test('only one profile is taken at a time', async () => {
  const { answer, wait } = await startProfile('');
  assert.equal(wait.ms, 30_000);
  assert.equal((await fetch(`${base}/debug/pprof/heap`)).status, 503);
  wait.end();
  assert.equal((await answer).status, 200);
});

test('a closed connection ends its profile', async () => {
  const abort = new AbortController();
  const { answer } = await startProfile('', abort.signal);
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
  const response = await fetch(`${base}/debug/pprof/heap`);
  assert.match(response.headers.get('content-disposition') ?? '', /\.heapsnapshot"$/);
  assert.ok('snapshot' in JSON.parse(await response.text()));
});

test('invalid requests are refused', async () => {
  for (const [path, status] of [
    ['/debug/pprof', 200],
    ['/debug/pprof/', 200],
    ['/debug/pprof/nosuch', 404],
    ['/debug/pprof/profile?seconds=NaN', 400],
    ['/debug/pprof/profile?seconds=301', 400],
    ['/debug/pprof/profile?seconds=-1', 400],
    ['/debug/pprofx', 404],
  ] as const) {
    assert.equal((await fetch(base + path)).status, status, path);
  }
  assert.equal((await fetch(`${base}/debug/pprof/heap`, { method: 'POST' })).status, 405);
});
