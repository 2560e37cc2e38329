/** Creates folders for the agent's files, and checks that Envoy finds them. */
import { access, chmod, constants, mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { CtlError, errnoOf } from '../core/errors.ts';

/**
 * Creates a folder and its missing parents. Node's own recursive way never returns where the system answers ENOENT for
 * a folder whose parent exists, as /proc does. Rejects with the system's error.
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
 * With the mode that the process's umask leaves. `mkdir` runs in a thread of its own, and so may see the umask that
 * holds for the moment in which a socket is created (grpc/listen.ts).
 */
async function makeOne(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode });
  const wanted = mode & ~process.umask();
  const { mode: found } = await stat(path);
  // Some file systems have no modes. The others keep the bit by which files inherit the folder's group.
  if ((found & 0o777) !== wanted) await chmod(path, (found & 0o7000) | wanted).catch(() => {});
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

/**
 * Rejects with CtlError for a path that this user can use from its working directory only: Envoy resolves the absolute
 * one (realpath(3)), for which each folder above has to be entered.
 */
export async function checkReachable(path: string): Promise<void> {
  try {
    await realpath(path);
  } catch (error) {
    if (errnoOf(error) !== 'EACCES') throw error;
    const closed = await firstClosed(resolve(path));
    const user = `user ${process.getuid?.()} may not enter ${closed ?? 'a folder above'}`;
    const advice = 'start the agent in another folder, or set configPath in PROXY_CONFIG to one that it can reach';
    throw new CtlError(
      'failed_precondition',
      `Envoy cannot reach it, because ${user}: ${advice}`,
      { file: path },
      error,
    );
  }
}

/** The uppermost folder on the way to a path that this user may not enter. */
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
