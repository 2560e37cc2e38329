/** Where the data is that control planes of tests start with; see `make-first-data.ts`. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Names the folder, for the processes of tests. */
export const FIRST_DATA = 'TEST_KUBERNETES_DATA';

/** The data to start with: that of a new cluster, or of one with the mesh's kinds. */
export type FirstData = 'empty' | 'definitions';

/** The folder with etcd's data; undefined where none was made. */
export function firstData(name: FirstData): string | undefined {
  const folder = process.env[FIRST_DATA];
  return folder === undefined ? undefined : join(folder, name);
}

/** Copies data. Files of etcd's log are 64 MB, of which most are zeros and need not be written. */
export async function copyData(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-r', '--sparse=always', from, to]);
}
