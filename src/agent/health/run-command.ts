/** Runs the command of an `exec` probe. */
import { spawn } from 'node:child_process';

/** Of the output, for the reason of a failure. The rest is read and dropped. */
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
    // A group of its own, so that what it started can be killed with it.
    const child = spawn(program, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const keep = (chunk: Buffer): void => {
      if (output.length < MAX_OUTPUT) output += chunk.toString('utf8').slice(0, MAX_OUTPUT - output.length);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    const end = (reason: string): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      killGroup(child.pid);
      child.stdout.destroy();
      child.stderr.destroy();
      resolve(reason);
    };
    const aborted = (): void => end('the agent ends');
    const timer = setTimeout(() => end(`${program} takes more than ${timeoutMs / 1000} s`), timeoutMs);
    signal.addEventListener('abort', aborted, { once: true });
    child.once('error', (error) => end(`${program} cannot be run: ${error.message}`));
    child.once('exit', (code, killedBy) => {
      const [line = ''] = output.trim().split('\n');
      end(code === 0 ? '' : `${program} ended with ${code ?? killedBy}${line === '' ? '' : `: ${line}`}`);
    });
  });
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // No process of the group is left.
  }
}
