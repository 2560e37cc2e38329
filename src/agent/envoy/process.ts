/** One run of Envoy as a child process. */
import { type SpawnOptions, spawn } from 'node:child_process';
import { CtlError } from '../../core/errors.ts';
import { readLines } from './log-line.ts';

export interface EnvoyExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface EnvoyProcess {
  readonly pid: number;
  /** Settles when Envoy has ended and its log was read completely. */
  readonly exited: Promise<EnvoyExit>;
  kill(signal: 'SIGTERM' | 'SIGKILL'): void;
}

interface StartOptions {
  readonly binary: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with each line that Envoy writes to stderr. */
  readonly onLine: (line: string) => void;
}

/** Descriptions of system errors. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'the agent may not execute it',
  ENOEXEC: 'it is not an executable for this machine',
};

/** Starts Envoy. Rejects with a CtlError of one line when the program cannot be started. */
export async function startEnvoyProcess({ binary, args, env, onLine }: StartOptions): Promise<EnvoyProcess> {
  const options: SpawnOptions = {
    env,
    // Envoy writes access logs directly to the agent's stdout.
    stdio: ['ignore', 'inherit', 'pipe'],
    // In a separate process group: Ctrl-C in a terminal must reach only the agent, which drains Envoy.
    detached: true,
  };
  const child = spawn(binary, [...args], options);
  if (child.stderr !== null) readLines(child.stderr, onLine);
  const exited = new Promise<EnvoyExit>((resolve) => child.once('close', (code, signal) => resolve({ code, signal })));
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error: NodeJS.ErrnoException) => {
      const reason = REASONS[error.code ?? ''] ?? error.message;
      reject(new CtlError('failed_precondition', `cannot start Envoy at ${binary}: ${reason}`, {}, error));
    });
  });
  const { pid } = child;
  if (pid === undefined) throw new CtlError('internal', 'Envoy was started without a process id');
  return { pid, exited, kill: (signal) => void child.kill(signal) };
}
