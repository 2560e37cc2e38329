/** Runs the programs that change the network. */
import { spawn } from 'node:child_process';
import { CtlError } from '../../core/errors.ts';

export interface RunResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program with text on its stdin until it ends. Rejects with CtlError not_found when there is no such program.
 */
export type Run = (program: string, args: readonly string[], input?: string) => Promise<RunResult>;

export const runProgram: Run = (program, args, input = '') =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      stdout += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      stderr += chunk;
    });
    child.once('error', (error: NodeJS.ErrnoException) => {
      const missing = error.code === 'ENOENT';
      const why = missing ? 'is not installed' : `cannot be run: ${error.message}`;
      reject(new CtlError(missing ? 'not_found' : 'unavailable', `${program} ${why}`, {}, error));
    });
    child.once('close', (code, signal) => resolve({ code: code ?? 1, stdout, stderr: stderr || (signal ?? '') }));
    // A program that ends before it has read everything reports why with its exit code.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });

/** The same, for a program that must succeed: gives its stdout. Rejects with a CtlError of one line. */
export async function mustRun(run: Run, program: string, args: readonly string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await run(program, args, input);
  if (code === 0) return stdout;
  throw failure(program, args, stderr);
}

/** The error for a failed program: its output in one line. */
export function failure(program: string, args: readonly string[], stderr: string): CtlError {
  const lines = stderr.split('\n').map((line) => line.trim());
  // Leaves out hints about --help and the summary line.
  const output = lines.filter((line) => line !== '' && !/^(Try |Error occurred at line|.*Perhaps )/.test(line));
  const command = [program, ...args].join(' ');
  if (/permission denied|you must be root|operation not permitted/i.test(stderr)) {
    return new CtlError(
      'permission_denied',
      `${command}: not permitted, this needs the capability NET_ADMIN: ${output.join('; ')}`,
    );
  }
  return new CtlError('unavailable', `${command} failed: ${output.join('; ') || 'without a message'}`);
}
