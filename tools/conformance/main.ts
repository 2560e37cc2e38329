/**
 * `npm run conformance`: the official conformance suite of the Gateway API against the sources of this repository, with
 * a summary on stdout and the official report in a file. This file is also the program that runs inside the network
 * namespace in which everything is.
 */
import { spawn } from 'node:child_process';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { parse } from 'yaml';
import { canOwnNetwork, createScope, inOwnNetwork, type Owner, ownNetwork } from '../../test/harness/index.ts';
import {
  buildConformance,
  buildKubernetes,
  CONFORMANCE_PROFILES,
  type ConformanceRun,
  startConformance,
} from '../../test/harness/kubernetes/index.ts';

const USAGE = `usage: npm run conformance [-- options]

  (none)          runs all tests of the profiles ${CONFORMANCE_PROFILES.join(', ')}
  --run WORD      only tests whose name contains WORD (a regular expression); writes no report
  --unclaimed     tests of features that are not claimed as well; writes no report
  --output DIR    where the report and the logs go; default .cache/conformance
`;

const FOLDER = join(import.meta.dirname, '../../.cache/conformance');

const say = (line: string) => void process.stderr.write(`conformance: ${line}\n`);

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());

interface Options {
  readonly help: boolean;
  readonly only: string | undefined;
  readonly unclaimed: boolean;
  readonly folder: string;
}

function readOptions(args: readonly string[]): Options {
  const options = {
    run: { type: 'string' },
    unclaimed: { type: 'boolean', default: false },
    output: { type: 'string', default: FOLDER },
    help: { type: 'boolean', default: false },
  } as const;
  const { help, run: only, unclaimed, output } = parseArgs({ args: [...args], options }).values;
  return { help, only, unclaimed, folder: resolve(output) };
}

/** Runs this program again in a network namespace of its own; returns its exit code. */
async function runInside(args: readonly string[]): Promise<number> {
  if (!canOwnNetwork()) throw new Error('needs root: every Gateway and every Pod has an address of its own');
  const build = { report: say, signal: interrupted.signal };
  const reason = (await buildKubernetes(build)) ?? (await buildConformance(build));
  if (reason !== undefined) throw new Error(reason);
  const { command, args: argv, env } = ownNetwork([process.execPath, import.meta.filename, ...args]);
  const child = spawn(command, argv, { env: { ...process.env, ...env }, stdio: 'inherit' });
  interrupted.signal.addEventListener('abort', () => void child.kill('SIGTERM'));
  return new Promise((done, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => done(code ?? 1));
  });
}

interface Statistics {
  readonly statistics: { readonly Passed: number; readonly Failed: number; readonly Skipped: number };
}

interface Report {
  readonly profiles: readonly {
    readonly name: string;
    readonly core: Statistics;
    readonly extended?: Statistics & { readonly supportedFeatures?: readonly string[] };
  }[];
}

const counts = ({ statistics }: Statistics) =>
  `${statistics.Passed} passed, ${statistics.Failed} failed, ${statistics.Skipped} skipped`;

async function profileLines(report: string): Promise<string[]> {
  const { profiles } = parse(await readFile(report, 'utf8')) as Report;
  return profiles.flatMap(({ name, core, extended }) => [
    `${name}: core: ${counts(core)}`,
    ...(extended === undefined
      ? []
      : [`${name}: extended: ${counts(extended)}; ${extended.supportedFeatures?.length ?? 0} features claimed`]),
  ]);
}

function summary({ results, passed }: ConformanceRun): string[] {
  const named = (result: string) => [...results].filter(([, each]) => each === result).map(([name]) => name);
  const failed = named('fail');
  return [
    ...(failed.length === 0 ? [] : ['failed:', ...failed.map((name) => `  ${name}`)]),
    ...(results.size === 0 && !passed ? ['the set-up of the suite failed; see suite.log'] : []),
    `${named('pass').length} passed, ${failed.length} failed, ${named('skip').length} skipped`,
  ];
}

async function run(owner: Owner, { only, unclaimed, folder }: Options): Promise<boolean> {
  await mkdir(folder, { recursive: true });
  const print = (line: string) => void process.stdout.write(`${line}\n`);
  say('starting a Kubernetes API server, ctl-discovery and the simulated kubelet');
  const bench = await startConformance(owner);
  say('running the suite');
  const report = join(folder, 'report.yaml');
  const whole = only === undefined && !unclaimed;
  const outcome = await bench.run({
    ...(whole ? { report } : {}),
    ...(only === undefined ? {} : { only: `(?i)(${only})` }),
    unclaimed,
    signal: interrupted.signal,
    onResult: (name, result, seconds) => {
      // Tests of features that are not claimed are skipped.
      if (result !== 'skip') print(`  ${result === 'pass' ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`);
    },
  });
  await writeFile(join(folder, 'suite.log'), outcome.output);
  await writeFile(join(folder, 'ctl-discovery.log'), bench.discovery.output());
  await copyFile(bench.gatewayLog, join(folder, 'gateways.log')).catch(() => undefined);
  const profiles = whole && outcome.results.size > 0 ? await profileLines(report) : [];
  for (const line of ['', ...profiles, ...summary(outcome)]) print(line);
  say(`the ${whole ? 'report and the logs are' : 'logs are'} in ${folder}`);
  return outcome.passed && [...outcome.results.values()].includes('pass');
}

async function main(args: readonly string[]): Promise<number> {
  const scope = createScope();
  try {
    const options = readOptions(args);
    if (options.help) {
      process.stdout.write(USAGE);
      return 0;
    }
    if (!inOwnNetwork()) return await runInside(args);
    return (await run(scope, options)) ? 0 : 1;
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
    return 1;
  } finally {
    await scope.close();
  }
}

process.exitCode = await main(process.argv.slice(2));
