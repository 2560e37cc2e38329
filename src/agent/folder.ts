/** Folders that the agent makes for its files. */
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Makes a folder and those above it that are missing. Node's own recursive way never comes back where the system says
 * ENOENT for a folder whose parent exists, as /proc does. `mode` is for the folders that are made. Rejects with the
 * system's error.
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

/** Another one may have made it; some file systems say something else than EEXIST for what is there. */
function unlessFolder(path: string): (error: unknown) => Promise<void> {
  return async (error) => {
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() !== true) throw error;
  };
}
