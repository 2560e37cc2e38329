/**
 * Locks a directory for one program: two authorities with the same state would each replace roots that the other signs
 * with. The lock is a Unix socket in the directory on which its holder listens. So a lock is known to be free if the
 * program that held it was killed (there is no listener), also from another container that mounts the same volume. It
 * does not work across machines (network file systems).
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { CtlError, errnoOf } from '../../core/errors.ts';

const LOCK = '.lock';

/** Attempts to take the lock of a program that has ended, while others try the same. */
const ATTEMPTS = 5;

/** A holder that does not answer within this time counts as present but busy, ms. */
const ANSWER_MS = 1000;

export interface DirectoryLock {
  /** Releases the lock; may be called more than once. */
  release(): Promise<void>;
}

/**
 * Takes the lock. Rejects with CtlError failed_precondition when another program holds it, and with the system's error
 * otherwise.
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const folder = await open(directory, 'r');
  // The path of a socket may have 107 bytes; through the descriptor, directories of any length fit.
  const at = (name: string): string => `/proc/self/fd/${folder.fd}/${name}`;
  const own = `${LOCK}.${randomUUID()}`;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end(String(process.pid));
  });
  try {
    await listen(server, at(own));
    await claim(directory, at, own);
  } catch (error) {
    await release(server, folder);
    throw error;
  }
  let released: Promise<void> | undefined;
  const releaseOnce = async (): Promise<void> => {
    await rm(at(LOCK), { force: true });
    await release(server, folder);
  };
  return {
    release() {
      released ??= releaseOnce();
      return released;
    },
  };
}

async function claim(directory: string, at: (name: string) => string, own: string): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    try {
      await link(at(own), at(LOCK));
      return;
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
    await refuseIfHeld(directory, at(LOCK));
    // Renamed before it is removed: a program that starts at the same time may have replaced it since the check.
    const stale = at(`${LOCK}.${randomUUID()}`);
    await rename(at(LOCK), stale).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error;
    });
    try {
      await refuseIfHeld(directory, stale);
    } catch (error) {
      await link(stale, at(LOCK)).catch(() => {});
      throw error;
    } finally {
      await rm(stale, { force: true });
    }
  }
  throw new CtlError('failed_precondition', 'is being locked by other programs; only one program can use a directory', {
    file: directory,
  });
}

async function refuseIfHeld(directory: string, path: string): Promise<void> {
  const holder = await findHolder(path);
  if (holder === undefined) return;
  const owner = holder === '' ? '' : ` (process ${holder})`;
  const message = `is in use by another program${owner}; only one program can use a directory`;
  throw new CtlError('failed_precondition', message, { file: directory });
}

/** Process id of the listener, '' when it does not send one; undefined when nothing listens. */
function findHolder(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let holder = '';
    const socket = connect(path);
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    socket.on('data', (data) => {
      holder = `${holder}${data}`.slice(0, 20);
    });
    socket.on('error', (error) => {
      // Any other error does not prove that nothing listens.
      resolve(['ECONNREFUSED', 'ENOENT', 'ENOTSOCK'].includes(errnoOf(error) ?? '') ? undefined : holder);
    });
    socket.on('close', () => resolve(/^\d+$/.test(holder) ? holder : ''));
  });
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      server.unref();
      resolve();
    });
  });
}

/** Closing the server removes its socket file, so the descriptor of the directory is closed after it. */
async function release(server: Server, folder: FileHandle): Promise<void> {
  await new Promise<void>((resolve) => server.close(() => resolve()));
  await folder.close();
}
