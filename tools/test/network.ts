/**
 * Runs test files in a network namespace of their own, where 10.244.0.0/16 is local: the API server of Kubernetes
 * refuses endpoints with loopback addresses, and tests may not take an address of the host. This file is also the
 * program that runs inside.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { canOwnNetwork, ownNetwork } from '../../test/harness/index.ts';
import { type Outcome, runTests, type TestRun } from './files.ts';

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

/**
 * Runs files as `runTests` does: in a network namespace, or in the network of the host without permission to create
 * one.
 */
export async function runTestsInOwnNetwork(run: TestRun): Promise<Outcome> {
  if (!canOwnNetwork()) return await runTests(run);
  const { signal, ...request } = run;
  const { command, args, env } = ownNetwork([process.execPath, import.meta.filename]);
  const stdio = ['inherit', 'inherit', 'inherit', 'ipc'] as const;
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: [...stdio] });
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
  // The test runner was killed.
  process.once('disconnect', () => interrupted.abort());
  process.once('message', async (request) => {
    process.send?.(await runTests({ ...(request as Request), signal: interrupted.signal }));
    process.disconnect();
  });
}
