/** Writes what a machine outside the cluster needs to be a workload of a WorkloadGroup into one folder. */
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises';
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
      await replaceFile(path, text, mode);
    }
  } catch (error) {
    throw new CtlError('failed_precondition', `cannot be written: ${errnoOf(error) ?? messageOf(error)}`, {
      file: path,
    });
  }
}

/**
 * Writes a new file and renames it once complete, because an existing file may be readable by others or a link to
 * elsewhere.
 */
async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    await writeFile(temporary, text, { mode, flag: 'wx' });
    // The process may have a umask.
    await chmod(temporary, mode);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
