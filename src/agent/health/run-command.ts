/** Runs the command of an `exec` probe. */
import { type ChildProcess, spawn } from 'node:child_process';
import { messageOf } from '../../core/errors.ts';

/** Maximum length of the output that is kept to explain a failure. The rest is read and dropped. */
const MAX_OUTPUT = 1024;

/**
 * Runs a command as the agent's user, without input. When it ends, takes too long, or `signal` aborts, all processes of
 * its group are killed. Resolves with '' when it ends with 0 in time, otherwise with the reason; never rejects.
 */
export function runCommand(
  [program, ...args]: readonly [string, ...string[]],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<string> {
  return new Promise((resolve) => {
    let output = '';
    const keep = (chunk: Buffer): void => {
      if (output.length < MAX_OUTPUT) output += chunk.toString('utf8').slice(0, MAX_OUTPUT - output.length);
    };
    let child: ChildProcess;
    try {
      // A group of its own, so that what it started can be killed with it.
      child = spawn(program, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    } catch (error) {
      // Some system errors are thrown, others are events: child_process of Node.
      resolve(`${program} cannot be run: ${messageOf(error)}`);
      return;
    }
    const { pid } = child;
    const end = (reason: string): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      killGroup(pid);
      child.stdout?.destroy();
      child.stderr?.destroy();
      resolve(reason);
    };
    const aborted = (): void => end('the agent is shutting down');
    const timer = setTimeout(() => end(`${program} did not finish within ${timeoutMs / 1000} s`), timeoutMs);
    signal.addEventListener('abort', aborted, { once: true });
    child.once('error', (error) => end(`${program} cannot be run: ${error.message}`));
    child.once('exit', (code, killedBy) => {
      const [line = ''] = output.trim().split('\n');
      end(code === 0 ? '' : `${program} ended with ${code ?? killedBy}${line === '' ? '' : `: ${line}`}`);
    });
    // The streams are missing when no file descriptor is free.
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
  });
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process group has no processes left.
  }
}
