/**
 * `npm run build`: bundles both programs and their workers into `dist/`. npm packages stay outside the bundles, except
 * those of the agent, which starts with every workload and has no time to read hundreds of files; the generated protobuf code
 * goes in. The same commit gives the same bytes: nothing of the clock or the machine goes in.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type BuildOptions, build } from 'esbuild';
import packageJson from '../../package.json' with { type: 'json' };
import type { WorkerName } from '../paths.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const DIST = join(REPOSITORY, 'dist');
const DISCOVERY = 'ctl-discovery';
const AGENT = 'ctl-agent';
const PROGRAMS = [DISCOVERY, AGENT];
const WORKERS: readonly WorkerName[] = ['generate', 'sign'];

/** What git says, or undefined outside a repository or when git has no answer. */
function git(...args: readonly string[]): string | undefined {
  try {
    return execFileSync('git', [...args], {
      cwd: REPOSITORY,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return undefined;
  }
}

/** The text that `src/observe/build-info.ts` reads. `date` is the commit's, so that a rebuild gives the same bytes. */
function buildStamp(): string {
  const changes = git('status', '--porcelain', '--untracked-files=no');
  return JSON.stringify({
    revision: git('rev-parse', 'HEAD') ?? 'unknown',
    date: git('show', '--no-patch', '--format=%cI', 'HEAD') ?? 'unknown',
    status: changes === '' ? 'Clean' : 'Modified',
    tag: git('describe', '--tags', '--exact-match') ?? packageJson.version,
  });
}

/** Chunks stand beside the entries, so that `toDist` holds for every module of one bundle. */
function options(entryPoints: readonly string[], outdir: string, toDist: string, stamp: string): BuildOptions {
  return {
    absWorkingDir: REPOSITORY,
    entryPoints: [...entryPoints],
    outdir,
    bundle: true,
    // Without splitting, a program's imports would be hoisted above its check of the Node version.
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    packages: 'external',
    sourcemap: 'linked',
    logLevel: 'warning',
    define: { MESHD_BUILD: JSON.stringify(stamp), MESHD_DIST: JSON.stringify(toDist) },
  };
}

/** The agent with its npm packages, of which those in CommonJS ask for `require`. */
function agentOptions(stamp: string): BuildOptions {
  return {
    ...options([`src/${AGENT}.ts`], DIST, './', stamp),
    packages: 'bundle',
    banner: { js: "import { createRequire } from 'node:module';const require = createRequire(import.meta.url);" },
  };
}

async function main(): Promise<void> {
  rmSync(DIST, { recursive: true, force: true });
  const stamp = buildStamp();
  const workers = WORKERS.map((name) => `workers/${name}.ts`);
  await build(options([`src/${DISCOVERY}.ts`], DIST, './', stamp));
  await build(agentOptions(stamp));
  await build(options(workers, join(DIST, 'workers'), '../', stamp));
  for (const name of PROGRAMS) chmodSync(join(DIST, `${name}.js`), 0o755);
  process.stdout.write(`built ${[...PROGRAMS, ...WORKERS.map((name) => `workers/${name}`)].join(', ')} in dist/\n`);
}

main().catch((error: unknown) => {
  // esbuild has printed what does not build, with its place; a stack trace of esbuild itself adds nothing.
  const built = typeof error === 'object' && error !== null && 'errors' in error;
  if (!built) process.stderr.write(`build: ${String(error)}\n`);
  process.exitCode = 1;
});
