/** Child processes with bounded output that never outlive their owner. Each is ended by its own process id. */
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { GiveUp } from './eventually.ts';
import type { Owner } from './owner.ts';

/** Enough to show what led to a failure, little enough that a verbose process cannot fill the memory. */
const OUTPUT_LIMIT = 256 * 1024;

/** How long a process may take to end after SIGTERM before it is killed, in milliseconds. */
const STOP_TIMEOUT_MS = 60_000;

/** Children that still run. A process that exits without running its owners' hooks ends them on its way out. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
// The test runner ends a file's process with SIGTERM, which runs no exit handlers. A program that owns a scope
// closes it on signals itself.
if (process.env.NODE_TEST_CONTEXT !== undefined) process.once('SIGTERM', () => process.exit(143));

export interface ChildOptions {
  /** For messages, such as `envoy sidecar-a`. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Receives its output on stdout and stderr. */
  onOutput?(text: string): void;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Child {
  readonly name: string;
  readonly pid: number;
  /** The end of its output on stdout and stderr. */
  output(): string;
  /** Throws `GiveUp` with its output when the process has ended. For use while waiting for it to become ready. */
  assertRunning(): void;
  /** Settles when its process has ended and what it wrote has been read. */
  readonly exited: Promise<Exit>;
  /** Settles when all of its output has been read: its process and those that inherited its output have ended. */
  readonly closed: Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** Sends SIGTERM, then SIGKILL when that takes too long; settles when the process has ended. */
  stop(): Promise<Exit>;
  /** Sends SIGKILL; settles when the process has ended. */
  kill(): Promise<Exit>;
}

function watchOutput(process: ChildProcess, onOutput: ChildOptions['onOutput']): () => string {
  let text = '';
  const append = (chunk: string) => {
    onOutput?.(chunk);
    text += chunk;
    if (text.length > 2 * OUTPUT_LIMIT) text = text.slice(-OUTPUT_LIMIT);
  };
  process.stdout?.setEncoding('utf8').on('data', append);
  process.stderr?.setEncoding('utf8').on('data', append);
  return () => text.slice(-OUTPUT_LIMIT);
}

/** Starts a process that stops with its owner. When the owner has failed, its output is printed. */
export async function startChild(owner: Owner, options: ChildOptions): Promise<Child> {
  const { name, command, args, env, cwd } = options;
  const spawned = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(spawned);
  const output = watchOutput(spawned, options.onOutput);
  let exit: Exit | undefined;
  const exited = new Promise<Exit>((resolve) => {
    spawned.once('exit', (code, signal) => {
      running.delete(spawned);
      // What it wrote last is still in its pipes, which are read in the next turn of the event loop. Their end is not
      // waited for: a process that it started may hold them.
      setImmediate(() =>
        setImmediate(() => {
          exit = { code, signal };
          resolve(exit);
        }),
      );
    });
  });
  const closed = new Promise<void>((resolve) => spawned.once('close', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    spawned.once('spawn', resolve);
    spawned.once('error', (cause) => reject(new Error(`${name}: cannot start ${command}`, { cause })));
  });
  const pid = spawned.pid;
  if (pid === undefined) throw new Error(`${name}: started without a process id`);

  const end = (signal: NodeJS.Signals): Promise<Exit> => {
    if (exit === undefined) spawned.kill(signal);
    return exited;
  };
  const stop = async (): Promise<Exit> => {
    const timer = new AbortController();
    const late = delay(STOP_TIMEOUT_MS, 'late' as const, { signal: timer.signal }).catch(() => 'cancelled' as const);
    const first = await Promise.race([end('SIGTERM'), late]);
    timer.abort();
    return typeof first === 'string' ? end('SIGKILL') : first;
  };
  owner.after(async () => {
    // A process that nobody stopped may be the cause of the failure.
    const state = exit === undefined ? '' : `, ended with ${exit.signal ?? `code ${exit.code}`} before`;
    await stop();
    if (owner.error) process.stderr.write(`--- ${name} (pid ${pid}${state}) ---\n${output()}\n`);
  });
  return {
    name,
    pid,
    output,
    exited,
    closed,
    assertRunning() {
      if (exit === undefined) return;
      throw new GiveUp(`${name} ended with ${exit.signal ?? `code ${exit.code}`}\n${output()}`);
    },
    signal: (signal) => void spawned.kill(signal),
    stop,
    kill: () => end('SIGKILL'),
  };
}
