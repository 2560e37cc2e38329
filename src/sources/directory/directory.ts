/**
 * The directory of `--configDir` as a source: every YAML and JSON file below it, followed by kernel events.
 *
 * watcher: which paths changed → settling policy: when to read, and what counts → reader: files → ledger → events
 *
 * An event only names a path; the comparison with the last reading decides what changed. A lost event therefore only
 * delays a change until the next event or resync. A document that cannot be read at start makes the start fail: there
 * is no earlier version that could stay in force, and the document may forbid something.
 */
import { basename, resolve } from 'node:path';
import { backoff } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { Slicer } from '../../core/slicer.ts';
import { type DocumentLimits, documentLimits } from '../../resources/index.ts';
import { HealthLog } from '../health.ts';
import { ReadingShares } from '../pacing/reading-shares.ts';
import { applyInSlices, type Source, type SourceHealth, type SourceSink } from '../source.ts';
import { type Sending, UnappliedEvents } from '../unapplied-events.ts';
import { FileBacklog, missingLast } from './backlog.ts';
import { SOURCE } from './documents.ts';
import { DirectoryReader, type FileChange } from './reader.ts';
import type { Scan } from './scan.ts';
import { SettlingPolicy } from './settling.ts';
import { Timers } from './timers.ts';
import { ChangeWatcher, type PendingChanges } from './watcher.ts';

export interface DirectorySourceOptions {
  readonly dir: string;
  /** The cluster of the workloads that the files describe. */
  readonly cluster: string;
  readonly log: Log;
  readonly clock: Clock;
  /** Milliseconds between full scans, independent of events; 0 is never. */
  readonly resyncMs: number;
  /** Whether documents of the Gateway API are read; default: they are ignored. */
  readonly serviceApis?: boolean;
  /** Limits of a document; default: the usual limits. */
  readonly limits?: DocumentLimits;
  /** The reading time by namespace, if several sources share it. */
  readonly shares?: ReadingShares;
  /** Called when ignored documents appear that were perhaps meant for the mesh, with their number. */
  readonly onIgnored?: (documents: number) => void;
}

/** The first and the later intervals at which a missing directory is logged again at start, when nothing is served. */
const REMIND_FIRST_MS = 5000;
const REMIND_MS = 60_000;

/** Before events that could not be applied are sent again, the first and the longest delay, ms. */
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;

/** Changes that were found. `isComplete`: the whole tree was compared. */
interface Found {
  readonly changes: readonly FileChange[];
  readonly isComplete: boolean;
}

const NO_CHANGES: Found = { changes: [], isComplete: false };

/** When the first of the changes that count was noticed, monotonic ms. */
interface Taken {
  readonly eventTime: number | undefined;
}

/** Working time, ms, after which what was read is reported even if more files wait. */
const TURN_MS = 50;

/** Why a directory cannot be read, for a message. */
function stateOf(error: unknown): string {
  const code = errnoOf(error);
  if (code === 'ENOENT') return 'does not exist';
  return code === 'ENOTDIR' ? 'is not a directory' : `cannot be listed (${code ?? String(error)})`;
}

/**
 * The first batch of events has everything that exists at start; each later batch has what was read in a turn. Waits
 * for a directory that does not exist.
 */
export function createDirectorySource(options: DirectorySourceOptions): Source {
  return new DirectorySource(options);
}

class DirectorySource implements Source {
  readonly id = SOURCE;
  readonly cluster: string;
  readonly #options: DirectorySourceOptions;
  /** Absolute path of the directory. */
  readonly #root: string;
  readonly #watcher: ChangeWatcher;
  readonly #settling: SettlingPolicy;
  readonly #reader: DirectoryReader;
  /** Once synced: changed files that are not read yet. */
  readonly #backlog: FileBacklog;
  readonly #health: HealthLog;
  readonly #timers: Timers;
  readonly #firstRead = Promise.withResolvers<void>();
  readonly #unapplied = new UnappliedEvents();
  /** Times in a row that the sink could not apply events. */
  #failures = 0;
  /** Runs until such events are sent again. */
  #retry: Timer | undefined;
  #sink: SourceSink | undefined;
  /** Whether the sink has everything that existed at start. */
  #isSynced = false;
  #isClosed = false;
  /** Monotonic ms. */
  #startedAt = 0;
  /** The reading in progress. */
  #reading: Promise<void> | undefined;
  /** Whether the next reading looks for changes; otherwise it only reads files that wait. */
  #isLookDue = false;
  /** Runs until the namespace of a waiting file may be read again. */
  #rest: Timer | undefined;

  constructor(options: DirectorySourceOptions) {
    const { log, clock, serviceApis = false, limits = documentLimits(1) } = options;
    const root = resolve(options.dir);
    this.#options = options;
    this.#root = root;
    this.cluster = options.cluster;
    this.#health = new HealthLog(log, clock.now);
    this.#timers = new Timers(clock);
    this.#settling = new SettlingPolicy({
      root,
      clock,
      onQuiet: () => this.#look(),
      onRecheck: (paths) => {
        for (const [path, eventTime] of paths) this.#watcher.addPath(path, eventTime);
        this.#look();
      },
    });
    this.#watcher = new ChangeWatcher({
      root,
      log,
      clock,
      onEvent: (eventTime, path) => {
        // A change that will have to wait must not prolong the wait of others.
        if (path !== undefined && !this.#backlog.isDelayed(path)) this.#sink?.changing(eventTime);
        this.#settling.noteActivity();
      },
      onScanDue: () => this.#look(),
    });
    const { onIgnored = () => {} } = options;
    this.#reader = new DirectoryReader({ root, log, settling: this.#settling, serviceApis, limits, onIgnored });
    this.#backlog = new FileBacklog({
      shares: options.shares ?? new ReadingShares(clock.now),
      namespaceOf: (path) => this.#reader.namespaceOf(path),
      kindsOf: (path) => this.#reader.kindsOf(path),
    });
    this.#firstRead.promise.catch(() => {});
  }

  get synced(): Promise<void> {
    return this.#firstRead.promise;
  }

  health(): SourceHealth {
    return this.#health.current;
  }

  start(sink: SourceSink): void {
    const { log, clock, resyncMs } = this.#options;
    this.#sink = sink;
    log.debug(`watching ${basename(this.#root)}`, { directory: this.#root });
    this.#startedAt = clock.now();
    this.#watcher.start(resyncMs);
    this.#look();
    this.#remindAfter(REMIND_FIRST_MS);
  }

  async close(): Promise<void> {
    this.#end();
    await this.#reading;
  }

  /** Starts no further readings. */
  #end(): void {
    this.#isClosed = true;
    this.#timers.close();
    this.#settling.close();
    this.#watcher.close();
  }

  #failStart(error: CtlError): void {
    this.#end();
    this.#firstRead.reject(error);
  }

  /** Starts a reading unless one is in progress; what changes meanwhile is read afterwards. */
  #look(): void {
    this.#isLookDue = true;
    this.#read();
  }

  #read(): void {
    if (this.#isClosed || this.#reading !== undefined) return;
    this.#reading = this.#readChanges()
      .catch((error: unknown) => {
        this.#options.log.error(`cannot read ${this.#root}: ${messageOf(error)}`);
      })
      .finally(() => {
        this.#reading = undefined;
        if (this.#watcher.hasChanges) this.#settling.noteActivity();
        this.#readWaiting();
      });
  }

  /** Schedules the reading of waiting files: now, or when their namespaces may be read again. */
  #readWaiting(): void {
    const { waitMs } = this.#backlog;
    this.#rest?.cancel();
    if (waitMs !== undefined) this.#rest = this.#timers.after(waitMs, () => this.#read());
  }

  async #readChanges(): Promise<void> {
    const { clock } = this.#options;
    const pending = this.#isLookDue ? this.#watcher.takeChanges() : undefined;
    this.#isLookDue = false;
    const found = pending === undefined ? NO_CHANGES : await this.#findChanges(pending);
    if (found === undefined) return;
    const slicer = new Slicer(clock.now);
    const outcome = await (this.#isSynced
      ? this.#takeTurn(found.changes, slicer)
      : this.#takeAll(found.changes, slicer));
    if (outcome === 'ended') return;
    this.#settling.scheduleRecheck();
    await slicer.pause();
    const sending = this.#unapplied.send(this.#reader.flush(outcome.eventTime ?? clock.now()));
    await slicer.pause();
    // Without an event (such as for a file that has been unchanged for long enough), the time of the change is now.
    const seenAt = this.#watcher.lastEventTime ?? pending?.lastEventTime ?? clock.now();
    if (sending.events.length > 0 && !(await this.#send(sending, seenAt))) return;
    if (found.isComplete) this.#noteSynced();
  }

  /** False where some could not be applied: all are sent again, with growing delays. */
  async #send(sending: Sending, seenAt: number): Promise<boolean> {
    const { clock, log } = this.#options;
    try {
      if (this.#sink !== undefined) await applyInSlices(this.#sink, sending.events, seenAt);
      sending.applied();
      this.#failures = 0;
      return true;
    } catch (error) {
      sending.failed();
      this.#failures++;
      const consequence = this.#isSynced ? '' : '; ctl-discovery is not ready until then';
      log.error(`cannot apply ${this.#unapplied.named()}: ${messageOf(error)}; trying again${consequence}`);
      this.#retry?.cancel();
      this.#retry = this.#timers.after(
        backoff(this.#failures, FIRST_RETRY_MS, MAX_RETRY_MS, () => 0),
        () => {
          // Before the first complete reading, only a scan can complete it.
          if (!this.#isSynced) this.#watcher.requestScan(clock.now());
          this.#look();
        },
      );
      return false;
    }
  }

  /**
   * The files that differ.
   * @returns undefined when the directory cannot be read: everything stays in force
   */
  async #findChanges(pending: PendingChanges): Promise<Found | undefined> {
    // While something cannot be read, a single path is not enough.
    const scanSince = pending.scanSince ?? (this.#health.current.ok ? undefined : this.#options.clock.now());
    if (scanSince === undefined) {
      const slicer = new Slicer(this.#options.clock.now);
      const { changes, scanSince } = await this.#reader.changesAmong(pending.paths, slicer);
      if (scanSince !== undefined) this.#watcher.requestScan(scanSince);
      return { changes, isComplete: false };
    }
    const scan = await this.#scan();
    return scan === undefined ? undefined : { changes: this.#reader.changesIn(scan, scanSince), isComplete: true };
  }

  /** @returns when the first of the changes that count was noticed */
  async #takeAll(changes: readonly FileChange[], slicer: Slicer): Promise<Taken | 'ended'> {
    let first: number | undefined;
    for (const change of missingLast(changes)) {
      await slicer.pause();
      try {
        first = earlier(first, await this.#reader.take(change, slicer, true));
      } catch (error) {
        if (!(error instanceof CtlError)) throw error;
        if (!this.#isClosed) this.#failStart(error);
      }
      if (this.#isClosed) return 'ended';
    }
    return { eventTime: first };
  }

  /** Reads waiting files, including those of `changes`, for a limited time. Namespaces take turns. */
  async #takeTurn(changes: readonly FileChange[], slicer: Slicer): Promise<Taken | 'ended'> {
    await this.#backlog.add(changes, new Slicer(this.#options.clock.now));
    const begun = slicer.worked;
    let first: number | undefined;
    while (slicer.worked - begun < TURN_MS) {
      await slicer.pause();
      if (this.#isClosed) return 'ended';
      const next = this.#backlog.next();
      if (next === undefined) break;
      const { change } = next;
      const before = slicer.worked;
      first = earlier(first, await this.#reader.take(change, slicer, false));
      this.#backlog.charge(next, slicer.worked - before + this.#reader.indexingTimeOf(change.path));
    }
    return this.#isClosed ? 'ended' : { eventTime: first };
  }

  #noteSynced(): void {
    if (this.#isSynced) return;
    this.#isSynced = true;
    this.#options.log.info(`read ${this.#reader.fileCount} files in ${this.#root}`);
    this.#firstRead.resolve();
  }

  /** Scans the tree. Returns `undefined` if there is no directory whose content may be used. */
  async #scan(): Promise<Scan | undefined> {
    const above = await this.#watcher.watchAbove();
    let scan: Scan;
    try {
      scan = await this.#watcher.scan(above);
    } catch (error) {
      this.#noteRootMissing(error);
      return undefined;
    }
    if (!this.#settling.acceptsRoot(scan, this.#reader.fileCount)) {
      const reason = `config directory ${this.#root} was replaced by an empty directory`;
      this.#health.bad(reason, 'the last content stays in force until the directory contains a file');
      return undefined;
    }
    return this.#noteUnreadable(scan) ? scan : undefined;
  }

  #noteRootMissing(error: unknown): void {
    this.#settling.noteRootMissing();
    const state = stateOf(error);
    if (!this.#isSynced && errnoOf(error) !== 'ENOENT') {
      const message = `the directory of --configDir ${state}`;
      this.#failStart(new CtlError('failed_precondition', message, { file: this.#root }));
      return;
    }
    const consequence = `${this.#isSynced ? 'its last content stays in force until' : 'waiting until'} it exists`;
    this.#health.bad(`config directory ${this.#root} ${state}`, consequence);
  }

  /** Reports directories that cannot be listed. Returns false if that makes the start fail. */
  #noteUnreadable({ unreadable }: Scan): boolean {
    const [first, ...others] = unreadable;
    if (first === undefined) this.#health.good(`config directory ${this.#root} can be read again`);
    else if (this.#isSynced) {
      const more = others.length === 0 ? '' : ` and ${others.length} more`;
      this.#health.bad(`cannot list ${first}${more}`, 'its last content stays in force');
    } else {
      this.#failStart(new CtlError('failed_precondition', 'expected a readable directory', { file: first }));
      return false;
    }
    return true;
  }

  /**
   * Logs again that the directory is missing, until it has been read for the first time; and scans, in case events
   * fail.
   */
  #remindAfter(ms: number): void {
    const { log, clock } = this.#options;
    this.#timers.after(ms, () => {
      if (this.#isSynced) return;
      const health = this.#health.current;
      if (!health.ok) {
        const seconds = Math.round((clock.now() - this.#startedAt) / 1000);
        log.warn(`${health.reason}, for ${seconds} s now; nothing is served until it exists`);
      }
      this.#watcher.requestScan(clock.now());
      this.#look();
      this.#remindAfter(REMIND_MS);
    });
  }
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}
