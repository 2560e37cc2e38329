/**
 * Collects which paths of a directory tree may have changed: from kernel events, from periodic scans, and from callers.
 *
 * The watcher reads no files. An event only says where to look; comparing with the last reading is the reader's part.
 */
import { dirname, join } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { errnoOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { directoryIdentity, isResourceFile, type Scan, scanTree } from './scan.ts';
import { Timers } from './timers.ts';
import { createTreeWatch, type TreeWatch } from './tree-watch.ts';

/** Scan interval where the system gives no events, ms. */
const POLL_MS = 1000;

/** What may have changed since the last call of {@link ChangeWatcher.takeChanges}. All times are monotonic ms. */
export interface PendingChanges {
  /** Path → time of its first event. */
  readonly paths: ReadonlyMap<string, number>;
  /** Time of the first event whose path is not known: everything has to be scanned. */
  readonly scanSince: number | undefined;
  readonly lastEventTime: number | undefined;
}

export interface ChangeWatcherOptions {
  /** Absolute path of the tree. */
  readonly root: string;
  readonly log: Log;
  readonly clock: Clock;
  /** A kernel event was recorded, and more may follow. `path` is set when a resource file has changed. */
  readonly onEvent: (eventTime: number, path: string | undefined) => void;
  /** A periodic scan is due. */
  readonly onScanDue: () => void;
}

export class ChangeWatcher {
  readonly #options: ChangeWatcherOptions;
  readonly #timers: Timers;
  readonly #watch: TreeWatch;
  #paths = new Map<string, number>();
  #scanSince: number | undefined;
  #lastEventTime: number | undefined;
  #isPolling = false;

  constructor(options: ChangeWatcherOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#watch = createTreeWatch({
      onEvent: (directory, name) => this.#noteEvent(directory, name),
      onUnavailable: (error) => this.#startPolling(error),
    });
  }

  /** @param resyncMs milliseconds between full scans; 0 is never */
  start(resyncMs: number): void {
    this.requestScan(this.#options.clock.now());
    this.#scanEvery(resyncMs);
  }

  close(): void {
    this.#timers.close();
    this.#watch.close();
  }

  get hasChanges(): boolean {
    return this.#scanSince !== undefined || this.#paths.size > 0;
  }

  /** Time of the last event since {@link takeChanges}. */
  get lastEventTime(): number | undefined {
    return this.#lastEventTime;
  }

  /** Adds a path to look at. An earlier event of the path keeps its time. */
  addPath(path: string, eventTime: number): void {
    if (!this.#paths.has(path)) this.#paths.set(path, eventTime);
  }

  /** Makes the next changes include the whole tree. */
  requestScan(eventTime: number): void {
    this.#scanSince ??= eventTime;
  }

  /** Returns what has changed, and starts collecting from nothing. */
  takeChanges(): PendingChanges {
    const changes = { paths: this.#paths, scanSince: this.#scanSince, lastEventTime: this.#lastEventTime };
    this.#paths = new Map();
    this.#scanSince = undefined;
    this.#lastEventTime = undefined;
    return changes;
  }

  /**
   * Scans the tree and watches all of it.
   * @param above the result of {@link watchAbove}: also watched
   * @throws when the root cannot be listed
   */
  async scan(above: ReadonlyMap<string, string>): Promise<Scan> {
    try {
      const scan = await scanTree(this.#options.root, (path, identity) => this.#watch.add(path, identity));
      this.#watch.retain(new Map([...scan.directories, ...above]));
      return scan;
    } catch (error) {
      this.#watch.retain(above);
      throw error;
    }
  }

  /** Watches the closest existing directory above the root, where the root will appear, be replaced, or vanish. */
  async watchAbove(): Promise<Map<string, string>> {
    for (let path = dirname(this.#options.root); ; path = dirname(path)) {
      const identity = await directoryIdentity(path);
      if (identity !== undefined) {
        this.#watch.add(path, identity);
        return new Map([[path, identity]]);
      }
      if (path === dirname(path)) return new Map();
    }
  }

  #noteEvent(directory: string, name: string | undefined): void {
    if (this.#isUnrelated(directory, name)) return;
    const { root, clock, onEvent } = this.#options;
    const now = clock.now();
    const isPlain = this.#isInTree(directory) && !directory.slice(root.length).includes('/.');
    const path = isPlain && name !== undefined && isResourceFile(name) ? join(directory, name) : undefined;
    if (path === undefined) this.requestScan(now);
    else this.addPath(path, now);
    this.#lastEventTime = now;
    onEvent(now, path);
  }

  #isInTree(directory: string): boolean {
    const { root } = this.#options;
    return directory === root || directory.startsWith(`${root}/`);
  }

  /** Above the root only the path to it matters; other entries there do not. */
  #isUnrelated(directory: string, name: string | undefined): boolean {
    const root = `${this.#options.root}/`;
    if (name === undefined || this.#isInTree(directory) || !root.startsWith(`${directory}/`)) return false;
    return !root.startsWith(`${join(directory, name)}/`);
  }

  #startPolling(error: unknown): void {
    if (this.#isPolling) return;
    this.#isPolling = true;
    const { root, log } = this.#options;
    const reason = errnoOf(error) ?? String(error);
    log.warn(`no file system events in ${root} (${reason}); polling every ${POLL_MS} ms instead`);
    this.#scanEvery(POLL_MS);
  }

  #scanEvery(ms: number): void {
    this.#timers.every(ms, () => {
      this.requestScan(this.#options.clock.now());
      this.#options.onScanDue();
    });
  }
}
