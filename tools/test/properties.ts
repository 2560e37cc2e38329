/**
 * The stage `properties`: property tests with other seeds and more runs than in the other stages, which use a fixed
 * seed so that a build is repeatable.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, runTests, type TestRun } from './files.ts';

/** What all property tests import. */
const HELPER = "/core/testing/properties.ts'";

const DEFAULT_MINUTES = 10;

/** The factor for the runs of each property in a round. */
const DEFAULT_RUNS = '10';

/** For each test in a round. */
const TIMEOUT_MS = 3_600_000;

const LARGEST_SEED = 0x7fff_ffff;

export interface PropertyRun extends Pick<TestRun, 'folder' | 'concurrency' | 'signal'> {
  /** Tests, as patterns of paths. Files without properties are left out. */
  readonly patterns: readonly string[];
  /** From the command line: a number of minutes, and parts of paths. */
  readonly words: readonly string[];
}

/** The number of minutes among the words, and the parts of paths. */
export function readWords(words: readonly string[]): { minutes: number; filter: readonly string[] } {
  const isNumber = (word: string): boolean => /^\d+(\.\d+)?$/.test(word);
  return {
    minutes: Number(words.find(isNumber) ?? DEFAULT_MINUTES),
    filter: words.filter((word) => !isNumber(word)),
  };
}

/** Runs all files in rounds, each with another seed, until the minutes have passed. PROPERTY_SEED: one round. */
export async function runProperties({ patterns, words, ...run }: PropertyRun): Promise<Outcome> {
  const { minutes, filter } = readWords(words);
  const files = globSync([...patterns], { cwd: run.folder })
    .filter((file) => filter.length === 0 || filter.some((word) => file.includes(word)))
    .map((file) => join(run.folder, file))
    .filter((file) => readFileSync(file, 'utf8').includes(HELPER))
    .sort();
  const sum = { passed: 0, failed: 0, skipped: 0, failures: [] as string[] };
  if (files.length === 0) return sum;
  const end = performance.now() + minutes * 60_000;
  const seedOfCaller = process.env.PROPERTY_SEED;
  process.env.PROPERTY_RUNS ??= DEFAULT_RUNS;
  do {
    process.env.PROPERTY_SEED = seedOfCaller ?? `${Math.floor(Math.random() * LARGEST_SEED)}`;
    const how = `PROPERTY_SEED=${process.env.PROPERTY_SEED} PROPERTY_RUNS=${process.env.PROPERTY_RUNS}`;
    process.stdout.write(`${files.length} files with ${how}\n`);
    const outcome = await runTests({ ...run, files, timeoutMs: TIMEOUT_MS, verbose: false });
    for (const count of ['passed', 'failed', 'skipped'] as const) sum[count] += outcome[count];
    for (const failure of outcome.failures) {
      const [file] = failure.split(': ');
      sum.failures.push(`${failure}\n    repeat: ${how} node --test ${file}`);
    }
  } while (seedOfCaller === undefined && !run.signal.aborted && performance.now() < end);
  return sum;
}
