import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Log } from '../../core/log.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import type { JsonObject } from '../../protobuf/index.ts';
import type { WorkloadHealth } from '../xds-proxy/index.ts';
import { runCommand } from './run-command.ts';
import { parseWorkloadProbe, watchWorkloadHealth } from './workload-probe.ts';

const folder = mkdtempSync(join(tmpdir(), 'meshd-probe-'));
after(() => rmSync(folder, { recursive: true }));

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const parse = (spec: JsonObject) => parseWorkloadProbe(spec, '127.0.0.1');

test('a probe has the defaults of the orchestrator, even where a number is 0', () => {
  const expected = { initialDelayMs: 0, periodMs: 10_000, successThreshold: 1, failureThreshold: 3 };
  const action = { kind: 'tcp', host: '127.0.0.1', port: 80, timeoutMs: 1000 };
  assert.deepEqual(parse({ tcpSocket: { port: 80 } }), { action, ...expected });
  const zero = {
    initialDelaySeconds: 0,
    periodSeconds: 0,
    successThreshold: 0,
    failureThreshold: 0,
    timeoutSeconds: 0,
  };
  assert.deepEqual(parse({ tcpSocket: { port: 80 }, ...zero }), { action, ...expected });
  assert.equal(parseWorkloadProbe(undefined, '127.0.0.1'), undefined);
});

test('an invalid probe is refused with what was expected', () => {
  const rows: readonly (readonly [spec: JsonObject, message: RegExp])[] = [
    [{}, /readinessProbe: expected httpGet, tcpSocket or grpc/],
    [{ tcpSocket: { port: 0 } }, /port must be/],
    [{ tcpSocket: { port: 80 }, periodSeconds: -1 }, /periodSeconds must be a whole number of at least 0/],
    [{ exec: { command: [] } }, /exec\.command must be/],
    [{ exec: { command: ['a', 1] } }, /exec\.command must be/],
  ];
  for (const [spec, message] of rows) assert.throws(() => parse(spec), { code: 'invalid_argument', message });
});

/** Watches with probes that follow each other at once; `proxy` says why the proxy is not ready. */
function watch(spec: JsonObject, proxy: () => string | undefined = () => undefined) {
  const probe = parse(spec);
  assert.ok(probe !== undefined);
  const reports: WorkloadHealth[] = [];
  const ending = new AbortController();
  let probes = 0;
  const sleep = async (): Promise<void> => {
    probes++;
    await new Promise((resolve) => setImmediate(resolve));
  };
  const deps = { probe, proxy: async () => proxy(), report: (health: WorkloadHealth) => void reports.push(health) };
  const done = watchWorkloadHealth({ ...deps, sleep, log: quiet }, ending.signal);
  return {
    reports,
    more: async (count: number) => {
      const from = probes;
      await waitUntil(() => probes >= from + count);
    },
    stop: async () => {
      ending.abort();
      await done;
    },
  };
}

test('health is reported when it is known and when it changes, with the reason', async () => {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let notReady: string | undefined = 'Envoy starts';
  const watched = watch({ tcpSocket: { port }, failureThreshold: 2 }, () => notReady);
  await watched.more(3);
  assert.deepEqual(watched.reports, []);
  for (const problem of [undefined, 'no listeners', undefined]) {
    const { length } = watched.reports;
    notReady = problem;
    await waitUntil(() => watched.reports.length === length + 1);
    await watched.more(3);
  }
  server.close();
  await waitUntil(() => watched.reports.length === 4);
  await watched.stop();
  assert.deepEqual(watched.reports, [
    { healthy: true, message: '' },
    { healthy: false, message: 'the proxy is not ready: no listeners' },
    { healthy: true, message: '' },
    { healthy: false, message: `127.0.0.1:${port} does not accept connections` },
  ]);
});

test('a probe may run a command', async () => {
  const file = join(folder, 'healthy');
  const watched = watch({ exec: { command: ['sh', '-c', `test -e ${file} || { echo no file; exit 3; }`] } });
  await waitUntil(() => watched.reports.length === 1);
  await runCommand(['touch', file], 60_000, new AbortController().signal);
  await waitUntil(() => watched.reports.length === 2);
  await watched.stop();
  assert.deepEqual(watched.reports, [
    { healthy: false, message: 'sh ended with 3: no file' },
    { healthy: true, message: '' },
  ]);
});

test('a command that takes too long fails', async () => {
  const reason = await runCommand(['sleep', '1000'], 50, new AbortController().signal);
  assert.equal(reason, 'sleep did not finish within 0.05 s');
});

test('when the agent ends, a command is killed with everything that it started', async () => {
  const file = join(folder, 'pids');
  const ending = new AbortController();
  const ended = runCommand(['sh', '-c', `sleep 1000 & echo $$ $! > ${file}; wait`], 60_000, ending.signal);
  const pids = () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split(' ') : []);
  await waitUntil(() => pids().length === 2);
  ending.abort();
  assert.equal(await ended, 'the agent is shutting down');
  // A killed process that nobody has waited for is a zombie.
  const stateOf = (pid: string) =>
    existsSync(`/proc/${pid}/status`) ? readFileSync(`/proc/${pid}/status`, 'utf8') : 'State: Z';
  await waitUntil(() => pids().every((pid) => /^State:\s+Z/m.test(stateOf(pid))));
});

test('a command that cannot be run or prints without end gives a reason of limited length', async () => {
  const { signal } = new AbortController();
  assert.match(await runCommand(['/does/not/exist'], 60_000, signal), /cannot be run: .*ENOENT/);
  assert.match(await runCommand(['true', 'a\0b'], 60_000, signal), /cannot be run: .*null bytes/);
  assert.match(await runCommand(['true', 'x'.repeat(3_000_000)], 60_000, signal), /cannot be run: .*E2BIG/);
  const reason = await runCommand(
    ['sh', '-c', 'yes yyyyyyyyyyy | tr -d "\\n" | head -c 3000000; exit 1'],
    60_000,
    signal,
  );
  assert.match(reason, /^sh ended with 1: y+$/);
  assert.ok(reason.length < 1100, String(reason.length));
});
