/**
 * Programs that tests need and that no package registry has, built from a Go module of this repository by the Go module
 * proxy. They are kept outside of the repository, in `MESHD_CACHE` (default `$XDG_CACHE_HOME/meshd`, or
 * `~/.cache/meshd`), in a folder named by a hash of all inputs of the build.
 */
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { homedir, setPriority } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { claim } from '../claims.ts';
import { GO_ENVIRONMENT, goCommand, goVersion } from '../go.ts';

/** How one result of a module is made. */
export type Artifact =
  /** Arguments of the go command without `-o`, which names the result. */
  | { readonly command: readonly string[]; readonly package: string }
  /** The files of a folder of a module that go.mod requires. */
  | { readonly module: string; readonly folder: string };

export interface GoPrograms<N extends string> {
  /** For messages and the name of the folder. */
  readonly name: string;
  /** The folder with go.mod and go.sum. */
  readonly module: string;
  /** Whatever else the results depend on; part of the hash. */
  readonly inputs: readonly unknown[];
  /** Files of the module that are compiled, besides go.mod and go.sum. */
  readonly sources: readonly string[];
  readonly artifacts: Readonly<Record<N, Artifact>>;
  /** How long a first build takes, for its message. */
  readonly duration: string;
}

export interface BuildOptions {
  /** Receives one line for each step. */
  report(line: string): void;
  readonly signal: AbortSignal;
}

/** The version of Go in the modules' go.mod. */
const GO_NEEDED = [1, 26] as const;

/** How often to look whether another process has finished its build, in milliseconds. */
const POLL_MS = 500;

/** The number of characters of the go command's output in an error. */
const OUTPUT_LIMIT = 4_000;

function cacheFolder({ name, module, inputs, sources }: GoPrograms<string>): string {
  const { MESHD_CACHE, XDG_CACHE_HOME } = process.env;
  const cache = MESHD_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'meshd');
  const hash = createHash('sha256').update(JSON.stringify([process.arch, ...inputs]));
  for (const file of ['go.mod', 'go.sum', ...sources]) hash.update(readFileSync(join(module, file)));
  return join(cache, `${name}-${hash.digest('hex').slice(0, 16)}`);
}

/** The path of a result, also before it is built. */
export function builtPath<N extends string>(programs: GoPrograms<N>, name: N): string {
  return join(cacheFolder(programs), name);
}

/** The results that are not built. */
export function missingPrograms<N extends string>(programs: GoPrograms<N>): N[] {
  return (Object.keys(programs.artifacts) as N[]).filter((name) => !existsSync(builtPath(programs, name)));
}

/** Why they cannot be used, or undefined when they can: for the `skip` of a test. */
export function programsUnavailable(programs: GoPrograms<string>): string | undefined {
  const names = missingPrograms(programs);
  if (names.length === 0) return undefined;
  return `${names.join(', ')} not built: \`npm test -- kubernetes\` builds them with Go ${GO_NEEDED.join('.')}`;
}

/** Why the programs cannot be built, or the go command that can. */
async function findGo({ name }: GoPrograms<string>): Promise<{ readonly go: string } | { readonly reason: string }> {
  const needed = `building the ${name} programs needs Go ${GO_NEEDED.join('.')} or newer`;
  const go = goCommand();
  if (go === undefined) return { reason: `${needed}, and there is no go command (on PATH or in /usr/local/go/bin)` };
  const [major, minor] = await goVersion(go);
  const enough = major > GO_NEEDED[0] || (major === GO_NEEDED[0] && minor >= GO_NEEDED[1]);
  return enough ? { go } : { reason: `${needed}, and ${go} is Go ${major}.${minor}` };
}

const environment = () => ({ ...process.env, ...GO_ENVIRONMENT, GOFLAGS: '-buildvcs=false -mod=readonly' });

async function runGo(go: string, args: readonly string[], cwd: string, signal: AbortSignal): Promise<void> {
  const child = spawn(go, args, { cwd, env: environment(), signal, stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = `${output}${text}`.slice(-OUTPUT_LIMIT);
  });
  // Compiling takes both cores for minutes: all other processes have priority.
  if (child.pid !== undefined) setPriority(child.pid, 10);
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, by) => {
      if (code === 0) resolve();
      else reject(new Error(`go ${args[0]} ended with ${by ?? `code ${code}`}: ${output.trim()}`));
    });
  });
}

/** The folder of a required module in the module cache of Go, which is downloaded when it is missing. */
async function moduleFolder(go: string, name: string, cwd: string, signal: AbortSignal): Promise<string> {
  const options = { cwd, env: environment(), signal };
  const { stdout } = await promisify(execFile)(go, ['mod', 'download', '-json', name], options);
  return (JSON.parse(stdout) as { Dir: string }).Dir;
}

async function build(go: string, artifact: Artifact, draft: string, cwd: string, signal: AbortSignal): Promise<void> {
  if ('command' in artifact) return runGo(go, [...artifact.command, '-o', draft, artifact.package], cwd, signal);
  const folder = await moduleFolder(go, artifact.module, cwd, signal);
  // File by file: folders of the module cache are read-only, and so would be a copy, which could not be removed.
  await mkdir(draft);
  const files = await readdir(join(folder, artifact.folder));
  await Promise.all(files.map((file) => copyFile(join(folder, artifact.folder, file), join(draft, file))));
}

/** An incomplete result has another name, so that it is never used. */
async function buildArtifact<N extends string>(
  go: string,
  programs: GoPrograms<N>,
  name: N,
  signal: AbortSignal,
): Promise<void> {
  const path = builtPath(programs, name);
  const draft = `${path}.${process.pid}.part`;
  try {
    await build(go, programs.artifacts[name], draft, programs.module, signal);
    await rename(draft, path);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/**
 * Builds what is missing, one after the other. Returns why it cannot be done here; rejects when a build fails.
 */
export async function buildPrograms<N extends string>(
  programs: GoPrograms<N>,
  { report, signal }: BuildOptions,
): Promise<string | undefined> {
  if (missingPrograms(programs).length === 0) return undefined;
  const found = await findGo(programs);
  if ('reason' in found) return found.reason;
  // Another copy of the repository may build the same program at this time.
  for (let waits = 0; !claim(`${programs.name}-build`); waits++) {
    if (waits === 0) report(`waiting for another process that builds the ${programs.name} programs`);
    await delay(POLL_MS, undefined, { signal });
    if (missingPrograms(programs).length === 0) return undefined;
  }
  const folder = cacheFolder(programs);
  await mkdir(folder, { recursive: true });
  const names = missingPrograms(programs);
  report(`building ${names.join(', ')} in ${folder}, once: ${programs.duration}`);
  for (const name of names) {
    report(`building ${name} …`);
    const started = performance.now();
    await buildArtifact(found.go, programs, name, signal);
    report(`building ${name}: done in ${Math.round((performance.now() - started) / 1000)} s`);
  }
  return undefined;
}
