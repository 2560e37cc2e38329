/** Runs test files with the test runner of Node.js, each or several in a process, and prints failures. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { batchFiles } from './batches.ts';
import { CPU_LINE } from './end-leftovers.ts';

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
  /** Ends the run: test processes are stopped, and unfinished tests count as failed. */
  readonly signal: AbortSignal;
  /** Also prints passed tests. */
  readonly verbose: boolean;
  /** Files that can share a process do. Default false. */
  readonly together?: boolean | undefined;
}

/** The largest output of a file that is kept, in characters. It is printed when the file fails. */
const OUTPUT_LIMIT = 64 * 1024;

const END_LEFTOVERS = import.meta.resolve('./end-leftovers.ts');

/** How many of the longest files are printed. */
const LONGEST = 8;

const inSeconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

/** The files with the largest values: the order in which they should start, and where time can be saved. */
function longestLine(durations: ReadonlyMap<string, number>): string {
  const longest = [...durations].sort(([, one], [, other]) => other - one).slice(0, LONGEST);
  return longest.map(([file, ms]) => `${file} ${inSeconds(ms)}`).join(', ');
}

/** The error of a test, without the wrapper of the test runner. */
function errorText(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  return inspect(cause, { depth: 6, maxStringLength: 20_000 }).replaceAll('\n', '\n    ');
}

/** Whether a suite failed only because tests in it did. */
function isOfSubtests(error: unknown): boolean {
  return error instanceof Error && 'failureType' in error && error.failureType === 'subtestsFailed';
}

export async function runTests(options: TestRun): Promise<Outcome> {
  if (!options.together) return runFiles(options, options.files, new Map());
  const scratch = await mkdtemp(join(tmpdir(), 'meshd-batches-'));
  try {
    const { files, batchOf } = batchFiles(options.files, scratch);
    return await runFiles(options, files, batchOf);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

async function runFiles(
  options: TestRun,
  files: readonly string[],
  batchOf: ReadonlyMap<string, string>,
): Promise<Outcome> {
  const { folder, concurrency, timeoutMs, verbose, signal } = options;
  const outputs = new Map<string, string>();
  const failures: string[] = [];
  const failed = new Set<string>();
  const durations = new Map<string, number>();
  const cpu = new Map<string, number>();
  const outcome = { passed: 0, failed: 0, skipped: 0 };
  let failedSuites = 0;
  const where = (file: string | undefined) => (file === undefined ? '' : relative(folder, file));
  const print = (line: string) => void process.stdout.write(`${line}\n`);

  // A test that fails may leave a server open, whose process would never end.
  const isolated = { isolation: 'process', execArgv: ['--import', END_LEFTOVERS] } as const;
  const events = run({ ...isolated, files: [...files], concurrency, timeout: timeoutMs, cwd: folder, signal });
  const collect = ({ file, message }: { file: string; message: string }) => {
    outputs.set(file, `${outputs.get(file) ?? ''}${message}`.slice(-OUTPUT_LIMIT));
  };
  events.on('test:stdout', collect);
  events.on('test:stderr', (line) => {
    const [, hundredths] = CPU_LINE.exec(line.message.trimEnd()) ?? [];
    if (hundredths === undefined) return collect(line);
    const name = batchOf.has(line.file) || !line.file.startsWith(folder) ? basename(line.file) : where(line.file);
    cpu.set(name, Number(hundredths) * 10);
  });
  const addDuration = (file: string | undefined, ms: number) => {
    if (file !== undefined) durations.set(where(file), (durations.get(where(file)) ?? 0) + ms);
  };
  // A module that loads several files has a suite for each.
  const modules = new Set(batchOf.values());
  const outermost = (file: string | undefined) => (file !== undefined && batchOf.has(file) ? 1 : 0);
  events.on('test:pass', ({ name, file, nesting, details, skip }) => {
    if (file !== undefined && modules.has(file)) return;
    if (nesting === outermost(file)) addDuration(file, details.duration_ms);
    if (!verbose || nesting > outermost(file)) return;
    const note = skip === undefined ? `${Math.round(details.duration_ms)} ms` : `skipped: ${skip}`;
    print(`  ok  ${where(file)}: ${name} (${note})`);
  });
  events.on('test:fail', ({ name, file, details }) => {
    // Failed tests of a suite are reported by themselves. A suite that fails without one has a hook that failed, which
    // the test runner does not count: suites are no tests.
    if (file !== undefined && modules.has(file) && details.type === 'suite') {
      if (isOfSubtests(details.error)) return;
      failedSuites++;
    }
    // The name of a failure of a whole file is its path.
    const failure = name === file ? where(file) : `${where(file)}: ${name}`;
    failures.push(failure);
    if (file !== undefined) failed.add(batchOf.get(file) ?? file);
    print(`  FAIL ${failure}\n    ${errorText(details.error)}`);
  });
  events.on('test:summary', ({ counts, file }) => {
    // There is one summary for each process, and one without a file for all of them.
    if (file !== undefined) return;
    outcome.passed = counts.passed;
    outcome.failed = counts.tests - counts.passed - counts.skipped - counts.todo + failedSuites;
    outcome.skipped = counts.skipped + counts.todo;
  });
  // The test runner starts with the first read.
  for await (const _event of events);
  for (const [file, output] of outputs) if (failed.has(file)) print(`  --- output of ${where(file)}\n${output}`);
  if (durations.size > LONGEST) print(`longest files: ${longestLine(durations)}`);
  const allCpu = [...cpu.values()].reduce((sum, ms) => sum + ms, 0);
  if (cpu.size > 1) print(`CPU time ${inSeconds(allCpu)}, most: ${longestLine(cpu)}`);
  return { ...outcome, failures };
}
