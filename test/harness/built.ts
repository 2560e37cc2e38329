/**
 * The programs as `npm run build` makes them, in a folder of the caller's own, so that another build does not replace
 * them.
 */
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Owner } from './owner.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
/** After this time it hangs. It takes seconds of CPU time, and minutes on a machine on which dozens of tasks run. */
const BUILD_TIMEOUT_MS = 900_000;

/** Builds into a folder that is removed with its owner. It is below the repository, where packages are found. */
export async function buildAside(owner: Owner): Promise<string> {
  const folder = join(REPOSITORY, `.cache/built-${process.pid}`);
  owner.after(() => rm(folder, { recursive: true, force: true }));
  const build = [join(REPOSITORY, 'tools/build.ts'), folder];
  await promisify(execFile)(process.execPath, build, { timeout: BUILD_TIMEOUT_MS });
  return folder;
}

/**
 * The file of a program. `npm test` builds the programs once and names their folder in TEST_PROGRAMS: they start in a
 * third of the CPU time that the sources need. Without the variable, as in the demo, the sources run.
 */
export function programFile(name: 'ctl-agent' | 'ctl-discovery' | 'ctl-jwt'): string {
  const folder = process.env.TEST_PROGRAMS;
  return folder === undefined ? join(REPOSITORY, `src/${name}.ts`) : join(folder, `${name}.js`);
}

/**
 * Variables for a program of `programFile`. What the build has compiled is beside it; with another folder, which the
 * variable of the tests names, it would compile that again and write it there.
 */
export function programEnv(): Readonly<Record<string, string | undefined>> {
  return process.env.TEST_PROGRAMS === undefined ? {} : { NODE_COMPILE_CACHE: undefined };
}
