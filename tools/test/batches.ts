/**
 * Puts small test files together, so that they share a process: a new process loads the modules that a file imports in
 * 0.4 s of CPU time, which is more than the tests of most files take.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Most files of a process. */
const BATCH_FILES = 40;

/**
 * Files that run alone: others would meet what a file changes in the process or leaves behind, such as sockets,
 * threads, programs and timers.
 */
const ALONE = new RegExp(
  [
    String.raw`\bmock\.|\bprocess\.|\bglobalThis\b|\bsetTimeout\b|[Pp]iscina`,
    "node:(?:net|https?|http2|tls|dgram|dns|worker_threads|child_process)'",
    '/harness/|grpc-js',
  ].join('|'),
  'm',
);

/** Imports that load nothing. */
const TYPE_IMPORTS = /^import type .*$/gm;

function runsAlone(file: string): boolean {
  return ALONE.test(readFileSync(file, 'utf8').replaceAll(TYPE_IMPORTS, ''));
}

export interface Batches {
  /** What the test runner starts, each in a process of its own: test files, and modules that load several. */
  readonly files: readonly string[];
  /** The module that loads a file, by path of the file. */
  readonly batchOf: ReadonlyMap<string, string>;
}

/**
 * A module that loads test files, each in a suite: hooks of a file are those of its suite. One after the other, because
 * a file that is loaded for another suite meanwhile would get that one's hooks. A file that cannot be loaded is a
 * failed test, and the others run.
 */
function batchText(files: readonly string[]): string {
  const urls = files.map((file) => pathToFileURL(file).href);
  return `import { suite, test } from 'node:test';
const load = async (url) => {
  try {
    await import(url);
  } catch (error) {
    test('load ' + url, () => { throw error; });
  }
};
for (const url of ${JSON.stringify(urls, undefined, 2)})
  await new Promise((resolve) => suite(url, () => load(url).finally(resolve)));
`;
}

/**
 * Writes modules that load the files which can share a process.
 * @param files absolute paths, in the order in which they start
 * @param folder an empty folder for the modules
 */
export function batchFiles(files: readonly string[], folder: string): Batches {
  const alone: string[] = [];
  const together: string[] = [];
  for (const file of files) (runsAlone(file) ? alone : together).push(file);
  const batchOf = new Map<string, string>();
  for (let start = 0; start < together.length; start += BATCH_FILES) {
    const batch = together.slice(start, start + BATCH_FILES);
    const path = join(folder, `batch-${start / BATCH_FILES + 1}.test.ts`);
    writeFileSync(path, batchText(batch));
    for (const file of batch) batchOf.set(file, path);
  }
  // Small files at the end keep all cores busy until then.
  return { files: [...new Set(batchOf.values()), ...alone], batchOf };
}
