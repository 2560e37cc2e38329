/**
 * `npm test`: lint and format, types, unit tests, golden tests, end-to-end tests, and tests against a real Kubernetes
 * API server, one stage after the other, each timed. Tests that only compute run beside the other stages, at low
 * priority: these wait for a part of their time.
 *
 *   npm test                      everything
 *   npm test -- unit golden       only these stages
 *   npm test -- e2e restart       end-to-end tests whose path contains `restart`
 *   npm test -- properties 30     30 minutes of property tests with random seeds, which are not part of `npm test`
 *
 * Every stage runs even when an earlier one failed. At the end are the counts and the time of each stage. The last line
 * is `N passed, N failed`, in which lint and types count as one each; the exit code is 1 when anything failed or when
 * nothing that was asked for exists.
 */
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { buildGrpcApplication, buildUnavailable } from '../../test/grpc/build.ts';
import { buildAside, createScope, type Scope } from '../../test/harness/index.ts';
import {
  buildConformance,
  buildHelm,
  buildKubernetes,
  FIRST_DATA,
  makeFirstData,
} from '../../test/harness/kubernetes/index.ts';
import { wideLines } from '../checks/line-width.ts';
import { runTestsBeside } from './beside.ts';
import { type Outcome, runTests, type TestRun } from './files.ts';
import { runTestsInOwnNetwork } from './network.ts';
import { runProperties } from './properties.ts';
import { describeOutcome, type StageResult, summary } from './summary.ts';

/** Ctrl-C and SIGTERM stop the current stage in order, so that it removes its processes and namespaces. */
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());

const REPOSITORY = join(import.meta.dirname, '../..');
const BIN = join(REPOSITORY, 'node_modules/.bin');

/**
 * Test processes and their children keep the code that V8 compiled: without it each file compiles all modules that it
 * loads. Node compares the text of a module before it uses its code.
 */
process.env.NODE_COMPILE_CACHE ??= join(REPOSITORY, '.cache/compiled-tests');

const NOTHING: Outcome = { passed: 0, failed: 0, skipped: 0, failures: [] };

interface Stage {
  readonly name: string;
  /** Runs only when it is named. */
  readonly onRequest?: boolean;
  /** The stage that this one is a part of, which can run beside the others. */
  readonly partOf?: string | undefined;
  run(filter: readonly string[], beside?: Beside): Promise<Outcome>;
}

/** A stage that runs beside the others. */
interface Beside {
  /** Gets what it would write. */
  readonly print: Print;
  /** Ends it. */
  readonly signal: AbortSignal;
}

type Print = (text: string) => void;

/** A stage that runs one program. It passes when the exit code is 0. */
function programStage(name: string, program: string, ...args: readonly string[]): Stage {
  return {
    name,
    run: () =>
      new Promise((resolve) => {
        const child = spawn(join(BIN, program), args, { cwd: REPOSITORY, stdio: 'inherit' });
        const settle = (passed: boolean) =>
          resolve({ passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: 0, failures: passed ? [] : [name] });
        child.once('error', () => settle(false));
        child.once('exit', (code) => settle(code === 0));
      }),
  };
}

interface TestStageOptions {
  readonly patterns: readonly string[];
  /** Patterns of files that do not belong to it. */
  readonly except?: readonly string[];
  readonly partOf?: string;
  /** How many files run at once. */
  readonly concurrency: number;
  /** The limit for a test file. */
  readonly timeoutMs: number;
  /** Prints every test, not only failures: for slow stages. */
  readonly verbose: boolean;
  /** Parts of paths of files that run first, because they take longest. */
  readonly first?: readonly string[];
  /** Runs before the first test; what it throws fails the stage. */
  readonly prepare?: () => Promise<void>;
  /** Files that can share a process do. Default false. */
  readonly together?: boolean;
  /** Default `runTests`. */
  readonly runner?: (run: TestRun) => Promise<Outcome>;
}

/** Files with the parts of paths first, in their order: a long file that starts last runs alone at the end. */
function longestFirst(files: readonly string[], first: readonly string[]): string[] {
  const rank = (file: string): number => first.findIndex((part) => file.includes(part)) + 1 || first.length + 1;
  return files.toSorted((one, other) => rank(one) - rank(other));
}

function testStage(name: string, options: TestStageOptions): Stage {
  return {
    name,
    partOf: options.partOf,
    async run(filter, beside) {
      const { patterns, except = [] } = options;
      const all = globSync([...patterns], { cwd: REPOSITORY, exclude: [...except] }).sort();
      const chosen = filter.length === 0 ? all : all.filter((file) => filter.some((word) => file.includes(word)));
      const files = longestFirst(chosen, options.first ?? []).map((file) => join(REPOSITORY, file));
      if (files.length === 0) return NOTHING;
      const { prepare, runner = runTests, concurrency, timeoutMs, verbose, together } = options;
      await prepare?.();
      const run = { files, folder: REPOSITORY, concurrency, timeoutMs, verbose, signal: interrupted.signal, together };
      if (beside === undefined) return runner(run);
      const { print, signal } = beside;
      // At the lowest priority a test may take as long as all other stages, after which the signal ends it.
      return runTestsBeside({ ...run, timeoutMs: BESIDE_TEST_MS, signal }, print);
    },
  };
}

/** What the linter cannot check is part of its stage: wide lines, fields without a test, and the documents. */
function lintStage(): Stage {
  const linter = programStage('lint', 'biome', 'check', '--error-on-warnings', '.');
  return {
    name: 'lint',
    async run(filter) {
      // Loaded here: it loads both programs for their tables.
      const { documentProblems, writeReference } = await import('../docs/problems.ts');
      const { coverageProblems } = await import('../coverage/problems.ts');
      if (process.env.UPDATE_REFERENCE === '1') writeReference(REPOSITORY);
      const outcome = await linter.run(filter);
      const problems = [...wideLines(REPOSITORY), ...coverageProblems(REPOSITORY), ...documentProblems(REPOSITORY)];
      for (const line of problems) process.stdout.write(`${line}\n`);
      return problems.length === 0 ? outcome : { passed: 0, failed: 1, skipped: 0, failures: ['lint'] };
    },
  };
}

/** The page application has the types of browsers, the rest those of Node.js. */
function typesStage(): Stage {
  const stages = ['tsconfig.json', 'pages/tsconfig.json'].map((config) => programStage('types', 'tsc', '-p', config));
  return {
    name: 'types',
    async run(filter) {
      const outcomes = await Promise.all(stages.map((stage) => stage.run(filter)));
      return outcomes.find(({ failed }) => failed > 0) ?? outcomes[0] ?? NOTHING;
    },
  };
}

/** Longer runs of properties than those of the stages that these files belong to. */
function propertiesStage(): Stage {
  const patterns = [...UNIT_FILES, ...GOLDEN_FILES];
  const options = { folder: REPOSITORY, concurrency: CORES, signal: interrupted.signal };
  return { name: 'properties', onRequest: true, run: (words) => runProperties({ patterns, words, ...options }) };
}

const UNIT_FILES = ['src/**/*.test.ts', 'tools/**/*.test.ts', 'workers/**/*.test.ts', 'pages/**/*.test.ts'];
const GOLDEN_FILES = ['test/golden/**/*.test.ts', 'test/*.test.ts'];
/** Those of each that only compute: no process or socket, and nothing waits for a time. */
const COMPUTING_UNIT_FILES = ['src/**/*.property.test.ts', 'src/**/*.fuzz.test.ts'];
const COMPUTING_FILES = ['test/incremental.test.ts', 'test/field-coverage.test.ts', 'test/*.property.test.ts'];

const CORES = availableParallelism();
/**
 * Many tests wait for a third of their time: for timers, drains, watches. With more files at once the cores are
 * crowded, and timeouts inside the programs pass.
 */
const WAITING_FILES = CORES + 1;
/** Tests of whole programs wait for half of their time. */
const PROGRAM_FILES = CORES + 3;

/**
 * Limit for a test and for a whole file, ms: then it hangs. On a crowded machine files take several times as long as
 * on an idle one, and those of the unit tests are up to forty that share a process.
 */
const HANGS_MS = 900_000;

/** Limit for a test that runs beside other stages, ms, and how long it may take after these have ended. */
const [BESIDE_TEST_MS, BESIDE_GRACE_MS] = [7_200_000, 600_000];

/** What ends with the run. */
const scope: Scope = createScope();
let built: Promise<string> | undefined;

/** Builds the programs for all tests that start them. */
async function preparePrograms(): Promise<void> {
  built ??= buildAside(scope);
  process.env.TEST_PROGRAMS = await built;
}

/** Without Go these tests are skipped: each says so and is counted. A build that fails fails the stage. */
async function prepareKubernetes(): Promise<void> {
  await preparePrograms();
  const report = (line: string) => void process.stdout.write(`set-up: ${line}\n`);
  const options = { report, signal: interrupted.signal };
  const reason = (await buildKubernetes(options)) ?? (await buildConformance(options)) ?? (await buildHelm(options));
  if (reason !== undefined) report(`tests of this stage are SKIPPED: ${reason}`);
  else process.env[FIRST_DATA] ??= await makeFirstData(scope);
  // Its modules are fetched, which is not possible in the network of the stage.
  if ((await buildUnavailable()) === undefined) await buildGrpcApplication();
}

const STAGES: readonly Stage[] = [
  lintStage(),
  typesStage(),
  testStage('unit', {
    patterns: UNIT_FILES,
    except: COMPUTING_UNIT_FILES,
    first: ['webhooks/server/hostile', 'reflector-faults', 'xds-proxy/', 'sharing'],
    concurrency: WAITING_FILES,
    timeoutMs: HANGS_MS,
    verbose: false,
    together: true,
  }),
  testStage('unit-computed', {
    partOf: 'unit',
    patterns: COMPUTING_UNIT_FILES,
    first: ['frame-sequences', 'machine', 'oracle'],
    concurrency: 1,
    timeoutMs: HANGS_MS,
    verbose: false,
  }),
  testStage('golden', {
    patterns: GOLDEN_FILES,
    except: COMPUTING_FILES,
    first: ['test/bench.test', 'test/golden.test', 'test/bench-neighbours'],
    concurrency: CORES,
    timeoutMs: HANGS_MS,
    verbose: false,
    // For the benches.
    prepare: preparePrograms,
  }),
  testStage('golden-computed', {
    partOf: 'golden',
    patterns: COMPUTING_FILES,
    first: ['test/incremental', 'test/mesh-copy', 'test/engine', 'test/memos'],
    concurrency: CORES,
    timeoutMs: HANGS_MS,
    verbose: false,
  }),
  testStage('e2e', {
    patterns: ['test/e2e/**/*.test.ts', 'test/scale/**/*.test.ts'],
    first: [
      'machines-systemd',
      'rotation',
      'identity-faults',
      'peer-auth',
      'jwks',
      'agent-',
      'xds-proxy',
      'owned-',
      'documents-machines',
      'dns.test',
      'demo',
      'inbound-requests',
      'jwt.test',
      'authorization',
      'gateway-secrets-refused',
      'scale',
      'identity-ca',
    ],
    concurrency: PROGRAM_FILES,
    timeoutMs: HANGS_MS,
    verbose: true,
    prepare: preparePrograms,
  }),
  testStage('kubernetes', {
    patterns: ['test/kubernetes/**/*.test.ts'],
    first: [
      'injected-pods',
      'authority',
      'helm',
      'gateway-acknowledged',
      'faults.test',
      'chart.test',
      'source',
      'gateway-programmed',
      'conformance',
      'playground',
      'leader',
      'grpc-pods',
      'jwt',
      'mesh.test',
      'replicas',
      'gateway-secrets-refused',
      'dual-stack',
      'workload-registration',
      'gateway-pods',
      'tokens',
      'remote-clusters',
    ],
    concurrency: PROGRAM_FILES,
    timeoutMs: HANGS_MS,
    verbose: true,
    prepare: prepareKubernetes,
    runner: runTestsInOwnNetwork,
  }),
  propertiesStage(),
];

/** Names of stages choose stages. Every other word selects files whose path contains it. */
function chooseStages(args: readonly string[]): { stages: readonly Stage[]; filter: readonly string[] } {
  const names = new Set(STAGES.map((stage) => stage.name));
  const wanted = new Set(args.filter((word) => names.has(word)));
  const filter = args.filter((word) => !names.has(word));
  if (wanted.size > 0)
    return { stages: STAGES.filter(({ name, partOf = name }) => wanted.has(name) || wanted.has(partOf)), filter };
  const usual = STAGES.filter(({ onRequest }) => onRequest !== true);
  // Words without a stage select test files only.
  const withFiles = filter.length === 0 ? usual : usual.filter(({ name }) => name !== 'lint' && name !== 'types');
  return { stages: withFiles, filter };
}

/** Runs a stage. A failed preparation fails the stage, and the other stages run. */
async function runStage(stage: Stage, filter: readonly string[], beside?: Beside): Promise<StageResult> {
  const started = performance.now();
  const outcome = await stage.run(filter, beside).catch((error: unknown) => {
    const line = `  FAIL ${stage.name}: ${error instanceof Error ? error.message : String(error)}\n`;
    (beside?.print ?? write)(line);
    return { passed: 0, failed: 1, skipped: 0, failures: [stage.name] };
  });
  return { name: stage.name, outcome, seconds: (performance.now() - started) / 1000 };
}

const write: Print = (text) => void process.stdout.write(text);

function endOf({ name, outcome, seconds }: StageResult): string {
  return `== ${name} in ${seconds.toFixed(1)} s: ${describeOutcome(outcome)}\n`;
}

/** Begins a stage beside the others. What it prints is kept, and returned with its result. */
async function beginBeside(
  stage: Stage,
  signal: AbortSignal,
): Promise<{ readonly text: string; readonly result: StageResult }> {
  let text = '';
  const print: Print = (more) => {
    text += more;
  };
  const result = await runStage(stage, [], { print, signal });
  return { text, result };
}

/** Parts of stages run beside the others in a complete run, or in one of several complete stages. */
function runsBeside({ partOf }: Stage, stages: readonly Stage[], filter: readonly string[]): boolean {
  return partOf !== undefined && filter.length === 0 && stages.some((other) => (other.partOf ?? other.name) !== partOf);
}

async function main(args: readonly string[]): Promise<number> {
  const { stages, filter } = chooseStages(args);
  const started = performance.now();
  const beside = stages.filter((stage) => runsBeside(stage, stages, filter));
  const late = new AbortController();
  const signal = AbortSignal.any([interrupted.signal, late.signal]);
  const begun = beside.map((stage) => beginBeside(stage, signal));
  const results: StageResult[] = [];
  for (const stage of stages.filter((each) => !beside.includes(each))) {
    if (interrupted.signal.aborted) break;
    write(`\n== ${stage.name}\n`);
    const result = await runStage(stage, filter);
    write(endOf(result));
    results.push(result);
  }
  const ending = setTimeout(() => late.abort(), BESIDE_GRACE_MS);
  const ended = await Promise.all(begun);
  clearTimeout(ending);
  for (const { text, result } of ended) {
    write(`\n== ${result.name}, beside the other stages\n${text}${endOf(result)}`);
    results.push(result);
  }
  const nothing = results.every(({ outcome: { passed, failed } }) => passed + failed === 0);
  if (nothing) write(`\nno test was run for: ${args.join(' ')}\n`);
  write(`\n${summary(results, (performance.now() - started) / 1000)}\n`);
  return nothing || interrupted.signal.aborted || results.some(({ outcome }) => outcome.failed > 0) ? 1 : 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} finally {
  await scope.close();
}
