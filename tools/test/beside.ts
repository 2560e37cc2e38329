/**
 * Runs test files in another process: inside of another network, or at low priority beside other tests. This file is
 * also the program that runs there.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants, setPriority } from 'node:os';
import { type Outcome, runTests, type TestRun } from './files.ts';

type Request = Omit<TestRun, 'signal'>;

/** A process that was told to end, and has not, is killed after this time, ms. */
const KILL_MS = 30_000;

/** The command line that runs `argv` in other surroundings, as `ownNetwork` of the harness makes it. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
}

function outcomeOf(child: ChildProcess): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    let outcome: Outcome | undefined;
    child.once('message', (message) => {
      outcome = message as Outcome;
    });
    child.once('error', reject);
    // All of its output has been read then.
    child.once('close', (code, signal) => {
      if (outcome !== undefined) resolve(outcome);
      else reject(new Error(`the tests' process ended with ${signal ?? `code ${code}`}`));
    });
  });
}

async function requestFrom(child: ChildProcess, { signal, ...request }: TestRun): Promise<Outcome> {
  let kill: NodeJS.Timeout | undefined;
  const stop = () => {
    child.kill('SIGTERM');
    kill = setTimeout(() => child.kill('SIGKILL'), KILL_MS);
  };
  signal.addEventListener('abort', stop);
  try {
    child.send(request satisfies Request);
    return await outcomeOf(child);
  } finally {
    signal.removeEventListener('abort', stop);
    clearTimeout(kill);
  }
}

/** Runs files as `runTests` does, in a process that starts with the command line that `wrap` makes. */
export function runTestsWithin(run: TestRun, wrap: (argv: readonly string[]) => Command): Promise<Outcome> {
  const { command, args, env } = wrap([process.execPath, import.meta.filename]);
  const stdio = ['inherit', 'inherit', 'inherit', 'ipc'] as const;
  return requestFrom(spawn(command, args, { env: { ...process.env, ...env }, stdio: [...stdio] }), run);
}

/**
 * Runs files as `runTests` does, at the lowest priority: they get what other tests leave of the cores.
 * @param print gets what it writes
 */
export function runTestsBeside(run: TestRun, print: (text: string) => void): Promise<Outcome> {
  const child = spawn(process.execPath, [import.meta.filename], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', print);
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  return requestFrom(child, run);
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
