/** Runs test files with node's test runner, each in a process of its own, and prints what a reader needs. */
import { relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';

export interface Outcome {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** One line for each failed test: its file and name. */
  readonly failures: readonly string[];
}

export interface TestRun {
  /** Absolute paths. */
  readonly files: readonly string[];
  /** Paths are printed relative to this folder. */
  readonly folder: string;
  readonly concurrency: number;
  /** Limit for each test, in milliseconds. */
  readonly timeoutMs: number;
  /** Ends the run: test processes are told to stop, and what has not run counts as failed. */
  readonly signal: AbortSignal;
  /** Prints passed tests too. */
  readonly verbose: boolean;
}

/** What a file may print before the oldest part is dropped: shown only when the file fails. */
const OUTPUT_LIMIT = 64 * 1024;

/** The error of a test, without the runner's wrapping. */
function errorText(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  return inspect(cause, { depth: 6, maxStringLength: 20_000 }).replaceAll('\n', '\n    ');
}

export async function runTests(options: TestRun): Promise<Outcome> {
  const { files, folder, concurrency, timeoutMs, verbose, signal } = options;
  const outputs = new Map<string, string>();
  const failures: string[] = [];
  const failed = new Set<string>();
  const outcome = { passed: 0, failed: 0, skipped: 0 };
  const where = (file: string | undefined) => (file === undefined ? '' : relative(folder, file));
  const print = (line: string) => void process.stdout.write(`${line}\n`);

  const events = run({ files: [...files], concurrency, timeout: timeoutMs, isolation: 'process', cwd: folder, signal });
  const collect = ({ file, message }: { file: string; message: string }) => {
    outputs.set(file, `${outputs.get(file) ?? ''}${message}`.slice(-OUTPUT_LIMIT));
  };
  events.on('test:stdout', collect);
  events.on('test:stderr', collect);
  events.on('test:pass', ({ name, file, nesting, details, skip }) => {
    if (!verbose || nesting > 0) return;
    const note = skip === undefined ? `${Math.round(details.duration_ms)} ms` : `skipped: ${skip}`;
    print(`  ok  ${where(file)}: ${name} (${note})`);
  });
  events.on('test:fail', ({ name, file, details }) => {
    // A file that fails as a whole has its path for a name.
    const failure = name === file ? where(file) : `${where(file)}: ${name}`;
    failures.push(failure);
    if (file !== undefined) failed.add(file);
    print(`  FAIL ${failure}\n    ${errorText(details.error)}`);
  });
  events.on('test:summary', ({ counts, file }) => {
    // One summary for each file and one for all of them; only the latter has no file.
    if (file !== undefined) return;
    outcome.passed = counts.passed;
    outcome.failed = counts.tests - counts.passed - counts.skipped - counts.todo;
    outcome.skipped = counts.skipped + counts.todo;
  });
  // The runner starts with the first read.
  for await (const _event of events);
  for (const [file, output] of outputs) if (failed.has(file)) print(`  --- output of ${where(file)}\n${output}`);
  return { ...outcome, failures };
}
