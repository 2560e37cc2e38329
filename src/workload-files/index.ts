/** Writes what a machine outside the cluster needs to be a workload of a WorkloadGroup into one folder. */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import type { WorkloadFile } from './files.ts';

export { accountOf, type WorkloadFile, type WorkloadFilesInput, workloadFiles } from './files.ts';
export { type ClusterRequest, fromCluster } from './from-cluster.ts';
export { groupInFile, textOf } from './read-group.ts';

/** Rejects with CtlError naming what cannot be written. */
export async function writeFiles(folder: string, files: readonly WorkloadFile[]): Promise<void> {
  let path = folder;
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    for (const { name, text, mode } of files) {
      path = join(folder, name);
      await writeFile(path, text, { mode });
      // An existing file keeps its mode otherwise.
      await chmod(path, mode);
    }
  } catch (error) {
    throw new CtlError('failed_precondition', `cannot be written: ${errnoOf(error) ?? messageOf(error)}`, {
      file: path,
    });
  }
}
