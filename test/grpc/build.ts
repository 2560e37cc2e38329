/**
 * Builds the gRPC application of this folder. Its modules come from the Go module proxy as go.sum has them. The program
 * is kept in .cache, by what it is made of.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GO_ENVIRONMENT, goCommand, goVersion } from '../harness/index.ts';

const HERE = import.meta.dirname;
const CACHE = join(HERE, '../../.cache');
const SOURCES = ['go.mod', 'go.sum', 'main.go'] as const;

/** The version in go.mod. */
const GO_NEEDED = [1, 26] as const;

/** A first build fetches 30 MB and compiles for less than a minute on an idle machine. */
const BUILD_TIMEOUT_MS = 400_000;

/** Why the program cannot be built, or undefined when it can: for the `skip` of a test. */
export async function buildUnavailable(): Promise<string | undefined> {
  const go = goCommand();
  if (go === undefined) return 'needs the go command (on PATH or in /usr/local/go/bin)';
  const [major, minor] = await goVersion(go);
  const enough = major > GO_NEEDED[0] || (major === GO_NEEDED[0] && minor >= GO_NEEDED[1]);
  return enough ? undefined : `needs Go ${GO_NEEDED.join('.')}, and ${go} is Go ${major}.${minor}`;
}

let built: Promise<string> | undefined;

/** Builds the program, unless it was built before. Returns its path; rejects with the output of the go command. */
export function buildGrpcApplication(): Promise<string> {
  built ??= build();
  return built;
}

async function build(): Promise<string> {
  const hash = createHash('sha256');
  for (const name of SOURCES) hash.update(await readFile(join(HERE, name)));
  const folder = join(CACHE, `grpc-application-${hash.digest('hex').slice(0, 16)}`);
  const program = join(folder, 'application');
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  // Of this process: another one may build at the same time.
  const draft = join(folder, `draft-${process.pid}`);
  const env = { ...process.env, ...GO_ENVIRONMENT, GOFLAGS: '-buildvcs=false -mod=readonly' };
  const args = ['build', '-trimpath', '-ldflags=-s -w', '-o', draft, '.'];
  await promisify(execFile)(goCommand() ?? 'go', args, { cwd: HERE, env, timeout: BUILD_TIMEOUT_MS });
  await rename(draft, program);
  return program;
}
