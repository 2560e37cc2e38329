/** Creates folders for the agent's files, and checks that Envoy finds them. */
import { access, chmod, constants, mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { CtlError, errnoOf } from '../core/errors.ts';

/**
 * Creates a folder and its missing parents. The `recursive` option of Node.js never returns if the system returns
 * ENOENT for a folder whose parent exists, as /proc does. Rejects with the system's error.
 *
 * @param mode of the folders that are created
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await makeOne(path, mode);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && dirname(path) !== path) {
      await makeFolder(dirname(path), mode);
      await makeOne(path, mode).catch(unlessFolder(path));
      return;
    }
    await unlessFolder(path)(error);
  }
}

/**
 * Creates a folder with the mode that the umask of the process permits. `mkdir` runs in another thread, and may
 * therefore see the umask that is set while a socket is created (grpc/listen.ts).
 */
async function makeOne(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode });
  const wanted = mode & ~process.umask();
  const { mode: found } = await stat(path);
  // Some file systems have no modes. The setgid bit is kept, by which files inherit the group of the folder.
  if ((found & 0o777) !== wanted) await chmod(path, (found & 0o7000) | wanted).catch(() => {});
}

/**
 * Ignores the error if the folder exists: another process may have created it, and some file systems do not return
 * EEXIST.
 */
function unlessFolder(path: string): (error: unknown) => Promise<void> {
  return async (error) => {
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() !== true) throw error;
  };
}

/**
 * Rejects with CtlError if this user cannot reach the path from the root directory. A relative path may work without
 * that, but Envoy resolves the absolute path (realpath(3)), which needs search permission on each folder above.
 */
export async function checkReachable(path: string): Promise<void> {
  try {
    await realpath(path);
  } catch (error) {
    if (errnoOf(error) !== 'EACCES') throw error;
    const closed = await firstClosed(resolve(path));
    const user = `user ${process.getuid?.()} has no search permission on ${closed ?? 'a folder above'}`;
    const advice = 'start the agent in another folder, or set configPath in PROXY_CONFIG to one that it can reach';
    throw new CtlError(
      'failed_precondition',
      `Envoy cannot access this path, because ${user}: ${advice}`,
      { file: path },
      error,
    );
  }
}

/** The first folder on the way to a path for which this user has no search permission. */
async function firstClosed(path: string): Promise<string | undefined> {
  const above = dirname(path);
  if (above === path) return undefined;
  const found = await firstClosed(above);
  if (found !== undefined) return found;
  const isOpen = await access(above, constants.X_OK).then(
    () => true,
    () => false,
  );
  return isOpen ? undefined : above;
}
