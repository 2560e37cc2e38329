/**
 * The programs of a Kubernetes control plane: etcd, kube-apiserver and kube-controller-manager, built from the Go
 * module proxy. No package registry has them. Their versions are those of `programs/go.mod`.
 *
 * A first build takes 3 to 12 minutes on two cores and 2.6 GiB. The programs are kept outside of the repository, in
 * `MESHD_CACHE` (default `$XDG_CACHE_HOME/meshd`, or `~/.cache/meshd`), in a folder named by a hash of all
 * inputs of the build.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { homedir, setPriority } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { claim } from '../claims.ts';
import { GO_ENVIRONMENT, goCommand, goVersion } from '../go.ts';

const MODULE = join(import.meta.dirname, 'programs');

/** The versions in go.mod. */
const GO_NEEDED = [1, 26] as const;

const KUBERNETES_VERSION = /^\tk8s\.io\/kubernetes v(\d+)\.(\d+)\.(\d+)$/m.exec(
  readFileSync(join(MODULE, 'go.mod'), 'utf8'),
);
const [, MAJOR = '', MINOR = '', PATCH = ''] = KUBERNETES_VERSION ?? [];

/** The packages of the programs, by name. */
const PACKAGES = {
  etcd: 'go.etcd.io/etcd/server/v3',
  'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
  'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
} as const;

export type ProgramName = keyof typeof PACKAGES;

const VERSION_PACKAGE = 'k8s.io/component-base/version';

/** Without major and minor, clients that parse the server's version fail. */
const LINKER_FLAGS = [
  '-s -w',
  `-X ${VERSION_PACKAGE}.gitVersion=v${MAJOR}.${MINOR}.${PATCH}`,
  `-X ${VERSION_PACKAGE}.gitMajor=${MAJOR} -X ${VERSION_PACKAGE}.gitMinor=${MINOR}`,
].join(' ');

const BUILD_FLAGS = ['-p', '2', '-trimpath', '-ldflags', LINKER_FLAGS] as const;

function cacheFolder(): string {
  const { MESHD_CACHE, XDG_CACHE_HOME } = process.env;
  const cache = MESHD_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'meshd');
  const hash = createHash('sha256').update(JSON.stringify([process.arch, BUILD_FLAGS, PACKAGES]));
  for (const file of ['go.mod', 'go.sum']) hash.update(readFileSync(join(MODULE, file)));
  return join(cache, `kubernetes-${hash.digest('hex').slice(0, 16)}`);
}

/** The path of a program, also before it is built. */
export function programPath(name: ProgramName): string {
  return join(cacheFolder(), name);
}

const missing = (): ProgramName[] =>
  (Object.keys(PACKAGES) as ProgramName[]).filter((name) => !existsSync(programPath(name)));

/** Why the control plane cannot be started, or undefined when it can: for the `skip` of a test. */
export function kubernetesUnavailable(): string | undefined {
  const names = missing();
  if (names.length === 0) return undefined;
  return `${names.join(', ')} not built: \`npm test -- kubernetes\` builds them with Go ${GO_NEEDED.join('.')}`;
}

/** Why the programs cannot be built, or the go command that can. */
async function findGo(): Promise<{ readonly go: string } | { readonly reason: string }> {
  const needed = `building the Kubernetes API server needs Go ${GO_NEEDED.join('.')} or newer`;
  const go = goCommand();
  if (go === undefined) return { reason: `${needed}, and there is no go command (on PATH or in /usr/local/go/bin)` };
  const [major, minor] = await goVersion(go);
  const enough = major > GO_NEEDED[0] || (major === GO_NEEDED[0] && minor >= GO_NEEDED[1]);
  return enough ? { go } : { reason: `${needed}, and ${go} is Go ${major}.${minor}` };
}

/** The number of characters of the go command's output in an error. */
const OUTPUT_LIMIT = 4_000;

async function runGo(go: string, args: readonly string[], signal: AbortSignal): Promise<void> {
  const env = { ...process.env, ...GO_ENVIRONMENT, GOFLAGS: '-buildvcs=false -mod=readonly' };
  const child = spawn(go, args, { cwd: MODULE, env, signal, stdio: ['ignore', 'ignore', 'pipe'] });
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

/** An incomplete program has another name, so that it is never used. */
async function buildProgram(go: string, name: ProgramName, signal: AbortSignal): Promise<void> {
  const path = programPath(name);
  const draft = `${path}.${process.pid}.part`;
  try {
    await runGo(go, ['build', ...BUILD_FLAGS, '-o', draft, PACKAGES[name]], signal);
    await rename(draft, path);
  } finally {
    await rm(draft, { force: true });
  }
}

export interface BuildOptions {
  /** Receives one line for each step. */
  report(line: string): void;
  readonly signal: AbortSignal;
}

/** How often to look whether another process has finished its build, in milliseconds. */
const POLL_MS = 500;

/**
 * Builds the programs that are missing, one at a time. Returns why it cannot be done here; rejects when a build fails.
 */
export async function buildKubernetes({ report, signal }: BuildOptions): Promise<string | undefined> {
  if (missing().length === 0) return undefined;
  const found = await findGo();
  if ('reason' in found) return found.reason;
  // Another copy of the repository may build the same program at this time.
  for (let waits = 0; !claim('kubernetes-build'); waits++) {
    if (waits === 0) report('waiting for another process that builds the Kubernetes programs');
    await delay(POLL_MS, undefined, { signal });
    if (missing().length === 0) return undefined;
  }
  await mkdir(cacheFolder(), { recursive: true });
  const names = missing();
  report(`building ${names.join(', ')} in ${cacheFolder()}, once: about 10 minutes on two cores`);
  for (const name of names) {
    report(`building ${name} …`);
    const started = performance.now();
    await buildProgram(found.go, name, signal);
    report(`building ${name}: done in ${Math.round((performance.now() - started) / 1000)} s`);
  }
  return undefined;
}
