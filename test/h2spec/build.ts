/**
 * Builds h2spec, a conformance suite for HTTP/2 servers, with requests that are gRPC calls. Its modules come from the
 * Go module proxy as go.sum has them; nothing of it is kept in the repository. The program is kept in .cache, by what
 * it is made of. Source: https://github.com/summerwind/h2spec
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GO_ENVIRONMENT } from '../harness/index.ts';

const HERE = import.meta.dirname;
const CACHE = join(HERE, '../../.cache');

/** What it is built of, with this file, which says how. */
const SOURCES = ['go.mod', 'go.sum', 'main.go'] as const;

/** A first build fetches 10 MB and compiles the standard library. */
const BUILD_TIMEOUT_MS = 240_000;

/** Changes of h2spec's sources, by their path below its module. Each text must be there once. */
const CHANGES: Readonly<Record<string, readonly (readonly [was: string, is: string])[]>> = {
  'spec/util.go': [
    ['HeaderField(":method", "GET"),', 'HeaderField(":method", "POST"),'],
    [
      'HeaderField(":authority", authority),',
      'HeaderField(":authority", authority), HeaderField("content-type", "application/grpc"), ' +
        'HeaderField("te", "trailers"),',
    ],
  ],
};

async function change(module: string): Promise<void> {
  for (const [file, changes] of Object.entries(CHANGES)) {
    const path = join(module, file);
    let text = await readFile(path, 'utf8');
    for (const [was, is] of changes) {
      if (text.split(was).length !== 2) throw new Error(`h2spec's ${file} does not have ${was} once`);
      text = text.replace(was, is);
    }
    await writeFile(path, text);
  }
}

/** Builds the program, unless it was built before. Returns its path; rejects with what the go command said. */
export async function buildH2spec(go: string): Promise<string> {
  const hash = createHash('sha256');
  for (const name of [...SOURCES, 'build.ts']) hash.update(await readFile(join(HERE, name)));
  const folder = join(CACHE, `h2spec-${hash.digest('hex').slice(0, 16)}`);
  const program = join(folder, 'h2spec');
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  // Beside the program, so that two builds at a time do not meet.
  const build = await mkdtemp(join(folder, 'build-'));
  try {
    for (const name of SOURCES) await copyFile(join(HERE, name), join(build, name));
    const run = (...args: string[]) =>
      promisify(execFile)(go, args, {
        cwd: build,
        timeout: BUILD_TIMEOUT_MS,
        env: { ...process.env, ...GO_ENVIRONMENT, GOFLAGS: '' },
      });
    await run('mod', 'vendor');
    await change(join(build, 'vendor/github.com/summerwind/h2spec'));
    await run('build', '-mod=vendor', '-trimpath', '-o', 'h2spec', '.');
    await rename(join(build, 'h2spec'), program);
  } finally {
    await rm(build, { recursive: true, force: true });
  }
  return program;
}
