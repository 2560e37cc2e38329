/** The Go toolchain, which builds the programs that some tests need and that no package registry has. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

/** Where Go's own installer puts it. */
const USUAL_FOLDER = '/usr/local/go/bin';

/** The path of the go command; undefined where there is none. */
export function goCommand(): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), USUAL_FOLDER];
  return folders.map((folder) => join(folder, 'go')).find((file) => existsSync(file));
}

/** Variables for the go command: it uses the compiler that is installed and never fetches another one. */
export const GO_ENVIRONMENT = { GOTOOLCHAIN: 'local', GOWORK: 'off', CGO_ENABLED: '0' } as const;

/** The version of a go command, as numbers: `go1.26.8` is [1, 26]. */
export async function goVersion(go: string): Promise<readonly [major: number, minor: number]> {
  const env = { ...process.env, ...GO_ENVIRONMENT };
  const { stdout } = await promisify(execFile)(go, ['env', 'GOVERSION'], { env });
  const [, major = '0', minor = '0'] = /^go(\d+)\.(\d+)/.exec(stdout) ?? [];
  return [Number(major), Number(minor)];
}

/** Why no program can be built, or undefined when it can: for the `skip` of a test. */
export async function goUnavailable([neededMajor, neededMinor]: readonly [number, number]): Promise<
  string | undefined
> {
  const go = goCommand();
  if (go === undefined) return 'needs the go command (on PATH or in /usr/local/go/bin)';
  const [major, minor] = await goVersion(go);
  const enough = major > neededMajor || (major === neededMajor && minor >= neededMinor);
  return enough ? undefined : `needs Go ${neededMajor}.${neededMinor}, and ${go} is Go ${major}.${minor}`;
}

export interface GoProgram {
  readonly folder: string;
  /** Its files, by which a build is recognized. */
  readonly sources: readonly string[];
  /** Where builds are kept. */
  readonly cache: string;
  readonly name: string;
  readonly timeoutMs: number;
}

/** Builds a program, unless it was built before. Returns its path; rejects with the output of the go command. */
export async function buildGoProgram({ folder, sources, cache, name, timeoutMs }: GoProgram): Promise<string> {
  const hash = createHash('sha256');
  for (const source of sources) hash.update(await readFile(join(folder, source)));
  const target = join(cache, `${name}-${hash.digest('hex').slice(0, 16)}`);
  const program = join(target, 'application');
  if (existsSync(program)) return program;
  await mkdir(target, { recursive: true });
  // Of this process: another one may build at the same time.
  const draft = join(target, `draft-${process.pid}`);
  const env = { ...process.env, ...GO_ENVIRONMENT, GOFLAGS: '-buildvcs=false -mod=readonly' };
  const args = ['build', '-trimpath', '-ldflags=-s -w', '-o', draft, '.'];
  await promisify(execFile)(goCommand() ?? 'go', args, { cwd: folder, env, timeout: timeoutMs });
  await rename(draft, program);
  return program;
}
