/**
 * Follows one configuration file: the mesh configuration or the mesh networks. Without the file, the default is in
 * force. A file that exists and cannot be read or is invalid makes the start fail: the default would allow what the
 * file forbids. While the program runs, a file that becomes unusable or disappears leaves the last value in force.
 */
import type { BigIntStats } from 'node:fs';
import { lstat, readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import type { Clock, Timer } from '../core/clock.ts';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { ResourceProblem } from '../resources/index.ts';
import type { ConfigRefusal, ParsedText } from './config-text.ts';
import { directoryIdentity } from './directory/scan.ts';
import { createTreeWatch, type TreeWatch } from './directory/tree-watch.ts';
import { decodeUtf8, NotUtf8 } from './utf8.ts';

export interface FileValueOptions<T> {
  readonly path: string;
  /** What the file configures, for messages: `mesh configuration`. */
  readonly what: string;
  /** Parses the content; `origin` is the absolute path. */
  readonly read: (text: string, origin: string) => ParsedText<T>;
  readonly defaultValue: T;
  /** What is in force without the file, for messages; absent: `the default`. */
  readonly otherwise?: string;
  /**
   * Called for every value that differs from the one before, and for the first one of a file that was created after the
   * start. `eventTime`: when the change was noticed.
   */
  readonly onValue: (value: T, eventTime: number) => void;
  readonly log: Log;
  readonly clock: Clock;
  /** Milliseconds between checks independent of events; 0 is never. */
  readonly resyncMs: number;
}

export interface FileValue<T> {
  /**
   * Reads the file for the first time (no `onValue` for that), then follows it. May be called again after an error.
   * @throws CtlError with file, line and field when the file exists and cannot be read or is invalid
   */
  start(): Promise<T>;
  value(): T;
  /** Whether the value is from the file, and not the default. */
  isFromFile(): boolean;
  problem(): ResourceProblem | undefined;
  close(): Promise<void>;
}

/** Configuration files are small; a larger one is a mistake. */
const MAX_BYTES = 4 * 1024 * 1024;
/** Writers cause several events for a file, and finish shortly after the first. */
const QUIET_MS = 20;

export function createFileValue<T>(options: FileValueOptions<T>): FileValue<T> {
  return new FollowedFile(options);
}

class FollowedFile<T> implements FileValue<T> {
  readonly #options: FileValueOptions<T>;
  /** Absolute. */
  readonly #path: string;
  readonly #watcher: TreeWatch;
  #value: T;
  /** Whether the value is from the file, and not the default. */
  #isFromFile = false;
  #problem: ResourceProblem | undefined;
  /** The signature of the file that was read last, or the reason why it was unusable. */
  #signature: string | undefined;
  /** The content that was read last; undefined when it could not be read. */
  #text: string | undefined;
  #isStarted = false;
  #isClosed = false;
  /** Time of the first event since the last reading. */
  #eventTime: number | undefined;
  #quiet: Timer | undefined;
  #resync: Timer | undefined;
  /** Readings happen one after the other. */
  #reading: Promise<void> = Promise.resolve();

  constructor(options: FileValueOptions<T>) {
    this.#options = options;
    this.#path = resolve(options.path);
    this.#value = options.defaultValue;
    this.#watcher = createTreeWatch({
      onEvent: (directory, name) => this.#noteEvent(directory, name),
      onUnavailable: (error) =>
        options.log.warn(`no file system events for ${this.#path} (${errnoOf(error) ?? String(error)})`),
    });
  }

  async start(): Promise<T> {
    const { what, log, clock } = this.#options;
    log.debug(`following ${basename(this.#path)}`, { file: this.#path });
    try {
      await this.#read(clock.now());
    } catch (error) {
      // Starting again reads the file again.
      this.#signature = undefined;
      this.#text = undefined;
      throw error;
    }
    if (this.#text === '') log.info(`${what} ${this.#path} is empty; the default is in force`);
    this.#isStarted = true;
    // The second check sees changes between the first reading and the watch.
    this.#look();
    this.#scheduleResync();
    return this.#value;
  }

  value(): T {
    return this.#value;
  }

  isFromFile(): boolean {
    return this.#isFromFile;
  }

  problem(): ResourceProblem | undefined {
    return this.#problem;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watcher.close();
    this.#quiet?.cancel();
    this.#resync?.cancel();
    await this.#reading;
  }

  #noteEvent(directory: string, name: string | undefined): void {
    const path = this.#path;
    // In directories above that of the file, only the next element of the path matters. In the file's own directory all
    // names matter, because mounts swap hidden names.
    if (name !== undefined && directory !== dirname(path) && `${path}/`.startsWith(`${directory}/`)) {
      if (!path.startsWith(`${directory === '/' ? '' : directory}/${name}`)) return;
    }
    const { clock } = this.#options;
    this.#eventTime ??= clock.now();
    this.#quiet ??= clock.setTimer(QUIET_MS, () => {
      this.#quiet = undefined;
      this.#look();
    });
  }

  #scheduleResync(): void {
    const { clock, resyncMs } = this.#options;
    if (resyncMs <= 0 || this.#isClosed) return;
    this.#resync = clock.setTimer(resyncMs, () => {
      this.#look();
      this.#scheduleResync();
    });
  }

  #look(): void {
    this.#reading = this.#reading.then(async () => {
      const eventTime = this.#eventTime ?? this.#options.clock.now();
      this.#eventTime = undefined;
      if (!this.#isClosed) await this.#read(eventTime);
    });
  }

  async #read(eventTime: number): Promise<void> {
    await this.#watchPath();
    const file = await inspect(this.#path);
    if (file === 'absent') return this.#noteAbsent();
    const signature = 'unusable' in file ? file.unusable : signatureOf(file);
    if (signature === this.#signature) return;
    this.#signature = signature;
    const problem = 'unusable' in file ? file.unusable : sizeProblem(file);
    if (problem !== undefined) {
      this.#text = undefined;
      return this.#refuse({ field: '', message: problem, line: undefined });
    }
    try {
      const text = decodeUtf8(await readFile(this.#path));
      // A file is empty between being truncated and being written; the write has its own event.
      if (text === this.#text || (this.#isStarted && text === '')) return;
      this.#text = text;
      this.#take(text, eventTime);
    } catch (error) {
      if (error instanceof CtlError) throw error;
      // Returning to the previous text counts as a change.
      this.#text = undefined;
      const code = errnoOf(error);
      const message = code !== undefined ? `expected a readable file: ${code}` : messageOf(error);
      this.#refuse({ field: '', message, line: error instanceof NotUtf8 ? error.line : undefined });
    }
  }

  #noteAbsent(): void {
    const { what, log } = this.#options;
    if (this.#signature !== undefined) {
      log.warn(`${what} ${this.#path} no longer exists; ${this.#inForce()} stays in force until it exists again`);
    } else if (!this.#isStarted) log.info(`${what} ${this.#path} does not exist; ${this.#otherwise} is in force`);
    this.#signature = undefined;
    this.#text = undefined;
  }

  #take(text: string, eventTime: number): void {
    const { what, log, onValue } = this.#options;
    const parsed = this.#options.read(text, this.#path);
    if ('refusal' in parsed) {
      this.#refuse(parsed.refusal);
      return;
    }
    this.#problem = undefined;
    if (parsed.warning !== undefined) log.warn(`${what} ${this.#path}: ${parsed.warning}`);
    const before = JSON.stringify(this.#value);
    this.#value = parsed.value;
    const isFirst = !this.#isFromFile;
    this.#isFromFile = true;
    if (this.#isStarted && (isFirst || JSON.stringify(parsed.value) !== before)) onValue(parsed.value, eventTime);
  }

  #inForce(): string {
    return this.#isFromFile ? 'the last good one' : this.#otherwise;
  }

  get #otherwise(): string {
    return this.#options.otherwise ?? 'the default';
  }

  /** Records and logs the problem. @throws CtlError at start */
  #refuse({ field, message: text, line }: ConfigRefusal): void {
    const { what, log } = this.#options;
    const message = text.replaceAll('\n', ' ');
    const location = { file: this.#path, ...(line === undefined ? {} : { line }) };
    this.#problem = { id: this.#path, origin: { source: 'file', ...location }, field, message };
    const error = new CtlError('failed_precondition', `${what}: ${message}`, { ...location, field });
    if (!this.#isStarted) throw error;
    log.error(`${error.oneLine()}; ${this.#inForce()} stays in force`);
  }

  /** Watches the file's directory (or the closest existing one above), and that of its link's target. */
  async #watchPath(): Promise<void> {
    const path = this.#path;
    const watched = new Map<string, string>();
    const watch = async (directory: string): Promise<boolean> => {
      const identity = await directoryIdentity(directory).catch(() => undefined);
      if (identity === undefined) return false;
      watched.set(directory, identity);
      this.#watcher.add(directory, identity);
      return true;
    };
    for (let at = dirname(path); !(await watch(at)) && at !== dirname(at); ) at = dirname(at);
    const target = await realpath(path).catch(() => undefined);
    if (target !== undefined) await watch(dirname(target));
    this.#watcher.retain(watched);
  }
}

/** The kind of thing at a path: nothing, a file, or something that cannot be read as a file. */
async function inspect(path: string): Promise<'absent' | BigIntStats | { readonly unusable: string }> {
  try {
    const info = await stat(path, { bigint: true });
    if (info.isFile()) return info;
    return { unusable: `expected a file, got ${info.isDirectory() ? 'a directory' : 'a special file'}` };
  } catch (error) {
    const code = errnoOf(error) ?? messageOf(error);
    if (code !== 'ENOENT') return { unusable: `expected a readable file: ${code}` };
    const isLink = await lstat(path).then(
      () => true,
      () => false,
    );
    return isLink ? { unusable: 'expected a file, got a dangling symbolic link' } : 'absent';
  }
}

function sizeProblem({ size }: BigIntStats): string | undefined {
  return size > MAX_BYTES ? `expected a file of at most ${MAX_BYTES} bytes, got ${size} bytes` : undefined;
}

/** Differs when the file was written or replaced, or its link points elsewhere. */
function signatureOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}
