/** Creates folders for the agent's files. */
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates a folder and its missing parents. Node's own recursive way never returns where the system answers ENOENT for
 * a folder whose parent exists, as /proc does. Rejects with the system's error.
 *
 * @param mode of the folders that are created
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && dirname(path) !== path) {
      await makeFolder(dirname(path), mode);
      await mkdir(path, { mode }).catch(unlessFolder(path));
      return;
    }
    await unlessFolder(path)(error);
  }
}

/**
 * Ignores the error if the folder exists: another process may have created it, and some file systems do not answer
 * EEXIST.
 */
function unlessFolder(path: string): (error: unknown) => Promise<void> {
  return async (error) => {
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() !== true) throw error;
  };
}
