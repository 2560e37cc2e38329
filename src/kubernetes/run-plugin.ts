/** Runs a credential plugin: a program without a terminal, for a limited time and with limited output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { CtlError, errnoOf } from '../core/errors.ts';

export interface PluginCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** Variables in addition to this process's environment. */
  readonly env: Readonly<Record<string, string>>;
}

/** Shorter than the time limit of a request, ms. */
const TIMEOUT_MS = 20_000;
/** Maximum size of the output, bytes: a certificate chain with its key has a few KiB. */
const MAX_OUTPUT = 256 * 1024;
/** Maximum length of the last line of stderr, which is shown in the message. */
const MAX_MESSAGE = 200;

/** Returns the output of the program. Rejects with a CtlError that does not quote it, because it contains secrets. */
export function runPlugin(
  { program, args, env }: PluginCommand,
  more: Readonly<Record<string, string>>,
  timeoutMs = TIMEOUT_MS,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env, ...more },
    // A process group of its own, so that programs that it starts are terminated with it.
    detached: true,
  });
  const chunks: Buffer[] = [];
  let bytes = 0;
  let stderr = '';
  let isClosed = false;
  const fail = (message: string): void => {
    reject(new CtlError('unavailable', `the credential plugin ${program} ${message}`));
    if (!isClosed) endGroup(child);
  };
  const timer = setTimeout(() => fail(`did not end within ${timeoutMs / 1000} s`), timeoutMs);
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_OUTPUT) fail(`printed more than ${MAX_OUTPUT} bytes`);
    else chunks.push(chunk);
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    stderr = `${stderr}${chunk}`.slice(-MAX_OUTPUT);
  });
  child.once('error', (error) => {
    clearTimeout(timer);
    fail(errnoOf(error) === 'ENOENT' ? 'is not installed' : `cannot be run (${errnoOf(error) ?? error.message})`);
  });
  child.once('close', (code, signal) => {
    clearTimeout(timer);
    isClosed = true;
    if (code === 0) resolve(Buffer.concat(chunks).toString('utf8'));
    else {
      const line =
        stderr
          .trim()
          .split('\n')
          .at(-1)
          ?.replace(/\p{Cc}+/gu, ' ')
          .trim()
          .slice(0, MAX_MESSAGE) ?? '';
      fail(`failed (${signal ?? `exit code ${code}`})${line === '' ? '' : `: ${line}`}`);
    }
  });
  return promise;
}

/** Terminates the program and its child processes, which can outlive it and keep its output open. */
function endGroup(child: ChildProcess): void {
  const { pid } = child;
  child.stdout?.destroy();
  child.stderr?.destroy();
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}
