/**
 * The access to a cluster as its files currently describe it. Before each use, the modification times of the files are
 * compared, and changed files are read again. While files are invalid, the previous content stays in use, and the files
 * are read again at intervals: an editor may write a file in several steps, and files that it refers to may be written
 * later.
 */
import { stat } from 'node:fs/promises';
import { backoff } from '../core/backoff.ts';
import { systemClock } from '../core/clock.ts';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import type { ClusterAccess, TlsMaterial } from './access.ts';

/** Interval between attempts to use files that cannot be used, ms. */
const RETRY_BASE_MS = 1000;
const RETRY_MAX_MS = 60_000;

export class FollowedAccess implements ClusterAccess {
  readonly server: URL;
  readonly serverName?: string;
  readonly namespace?: string;
  readonly #files: readonly string[];
  readonly #read: () => Promise<ClusterAccess>;
  readonly #onProblem: (error: CtlError) => void;
  #current: ClusterAccess;
  /** Modification times and sizes of the files when they were last read. */
  #stamp: string;
  /** Consecutive failed attempts to use these files. */
  #failures = 0;
  #retryAt = 0;
  /** The last reported problem of these files. */
  #problem: string | undefined;
  #reading: Promise<void> | undefined;

  private constructor(
    files: readonly string[],
    read: () => Promise<ClusterAccess>,
    onProblem: (error: CtlError) => void,
    first: { readonly access: ClusterAccess; readonly stamp: string },
  ) {
    const { server, serverName, namespace } = first.access;
    this.server = server;
    if (serverName !== undefined) this.serverName = serverName;
    if (namespace !== undefined) this.namespace = namespace;
    this.#files = files;
    this.#read = read;
    this.#onProblem = onProblem;
    this.#current = first.access;
    this.#stamp = first.stamp;
  }

  /** Rejects with CtlError where the files cannot be used. */
  static async start(
    files: readonly string[],
    read: () => Promise<ClusterAccess>,
    onProblem: (error: CtlError) => void,
  ): Promise<FollowedAccess> {
    // Read before the content, so that a change in between is noticed.
    const stamp = await stampOf(files);
    return new FollowedAccess(files, read, onProblem, { access: await read(), stamp });
  }

  // Own properties, so that a copy of the object with another server works as well.
  readonly tls = async (): Promise<TlsMaterial> => {
    await this.#refresh();
    return this.#current.tls();
  };

  readonly token = async (): Promise<string | undefined> => {
    await this.#refresh();
    return this.#current.token();
  };

  readonly rejected = (): void => this.#current.rejected?.();

  #refresh(): Promise<void> {
    this.#reading ??= this.#readChanged().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readChanged(): Promise<void> {
    const stamp = await stampOf(this.#files);
    if (stamp !== this.#stamp) {
      this.#stamp = stamp;
      this.#failures = 0;
      this.#problem = undefined;
    } else if (this.#failures === 0 || systemClock.now() < this.#retryAt) return;
    try {
      const access = await this.#read();
      if (access.server.href !== this.server.href || access.serverName !== this.serverName) {
        const [file = ''] = this.#files;
        const message = `expected the server ${this.server.href}; changing the server needs a restart`;
        throw new CtlError('failed_precondition', message, { file });
      }
      // Fails when a file that it names cannot be read.
      await access.tls();
      this.#current = access;
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      this.#retryAt = systemClock.now() + backoff(this.#failures, RETRY_BASE_MS, RETRY_MAX_MS, Math.random);
      this.#report(error instanceof CtlError ? error : new CtlError('unavailable', messageOf(error), {}, error));
    }
  }

  #report(error: CtlError): void {
    const line = error.oneLine();
    if (line === this.#problem) return;
    this.#problem = line;
    this.#onProblem(error);
  }
}

async function stampOf(files: readonly string[]): Promise<string> {
  const stamps = files.map(async (file) => {
    try {
      const { ino, size, mtimeMs } = await stat(file);
      return `${ino} ${size} ${mtimeMs}`;
    } catch (error) {
      return errnoOf(error) ?? messageOf(error);
    }
  });
  return (await Promise.all(stamps)).join();
}
