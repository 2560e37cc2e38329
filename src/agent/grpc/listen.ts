/**
 * Listens on a Unix domain socket that only the owner may use, or its group as well, replacing one that a dead process
 * left; or on an address of the machine.
 */
import { lstat, unlink } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { dirname } from 'node:path';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import { makeFolder } from '../folder.ts';

/** Length of `sun_path` of unix(7), without the terminating zero. */
const MAX_PATH_BYTES = 107;

/** Mode of sockets for the owner. */
const OWNER_ONLY = 0o600;

/** Starts to listen on a socket. Rejects with CtlError that names the path. */
export async function listenOnSocket(server: Server, path: string, mode = OWNER_ONLY): Promise<void> {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw new CtlError('invalid_argument', `the path of a Unix socket must have at most ${MAX_PATH_BYTES} bytes`, {
      file: path,
    });
  }
  try {
    await makeFolder(dirname(path), mode === OWNER_ONLY ? 0o700 : 0o750);
    await listen(server, path, mode).catch(async (error: unknown) => {
      if (errnoOf(error) !== 'EADDRINUSE') throw error;
      await removeStale(path);
      await listen(server, path, mode);
    });
  } catch (error) {
    if (error instanceof CtlError) throw error;
    const reason = errnoOf(error) ?? messageOf(error);
    throw new CtlError('unavailable', `the socket cannot be created (${reason})`, { file: path }, error);
  }
}

function listen(server: Server, path: string, mode: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // The socket is created in this call, with its mode from the umask, so that there is no moment in which others
    // could connect.
    const mask = process.umask(0o777 & ~mode);
    try {
      server.listen(path, () => {
        server.off('error', reject);
        resolve();
      });
    } finally {
      process.umask(mask);
    }
  });
}

/** Removes the socket if no process is listening on it. */
async function removeStale(path: string): Promise<void> {
  if (!(await lstat(path)).isSocket()) {
    throw new CtlError('already_exists', 'the path exists and is not a socket', { file: path });
  }
  if (await answers(path)) throw new CtlError('already_exists', 'another process is listening on it', { file: path });
  await unlink(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const done = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => done(true));
    // A full backlog also shows that a process is listening.
    socket.on('error', (error: NodeJS.ErrnoException) => done(error.code === 'EAGAIN'));
  });
}
