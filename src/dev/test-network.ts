/**
 * Runs test files in a network namespace of their own, where `ADDRESSES` are local. The API server of Kubernetes
 * refuses endpoints with loopback addresses, and no address of the host may be taken for tests.
 *
 * The namespace has no name and ends with its last process. This file is also the program that runs inside it.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { type Outcome, runTests, type TestRun } from './test-files.ts';

/** As the Pods of many clusters have; any address of it can be bound. */
const ADDRESSES = '10.244.0.1/16';

/** The addresses of a loopback interface are local as a whole network: every one of them can be bound at once. */
const ENTER = `ip link set lo up && ip address add ${ADDRESSES} dev lo && exec "$@"`;

/** `unshare` is in util-linux, which every Linux distribution has. */
const unshare = (...argv: readonly string[]) => ['--net', '--', 'sh', '-c', ENTER, 'sh', ...argv];

function canUnshare(): boolean {
  return spawnSync('unshare', unshare('true')).status === 0;
}

type Request = Omit<TestRun, 'signal'>;

function outcomeOf(child: ChildProcess): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    let outcome: Outcome | undefined;
    child.once('message', (message) => {
      outcome = message as Outcome;
    });
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      if (outcome !== undefined) resolve(outcome);
      else reject(new Error(`the tests' process ended with ${signal ?? `code ${code}`}`));
    });
  });
}

/** As `runTests`; without the right to make a namespace, in the network of the host. */
export async function runTestsInOwnNetwork(run: TestRun): Promise<Outcome> {
  if (!canUnshare()) return await runTests(run);
  const { signal, ...request } = run;
  const args = unshare(process.execPath, import.meta.filename);
  const child = spawn('unshare', args, { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  const stop = () => void child.kill('SIGTERM');
  signal.addEventListener('abort', stop);
  try {
    child.send(request);
    return await outcomeOf(child);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

if (import.meta.main) {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort());
  process.once('message', async (request) => {
    process.send?.(await runTests({ ...(request as Request), signal: interrupted.signal }));
    process.disconnect();
  });
}
