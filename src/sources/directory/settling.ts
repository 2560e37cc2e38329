/**
 * Decides when the state of a directory counts: how long to wait after events before files are read, how long an
 * incomplete file is ignored, and when a replaced directory is treated as a mistake.
 *
 * Editors and copying tools leave files half-written or absent for a moment. Such states (missing resources, a document
 * that cannot be identified, a missing file) count only after SETTLE_MS. When the whole directory disappears, or an
 * empty one replaces it (an unmounted volume), its resources stay in force until files are back.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import type { Scan, ScannedFile } from './scan.ts';
import { Suspicions } from './suspicions.ts';
import { Timers } from './timers.ts';

/** A writer causes several events for a file. The file is read once, this long after the last event. */
const QUIET_MS = 10;
/** Maximum time that continuous events may delay a reading. */
const MAX_WAIT_MS = 100;
/** How long a file must look incomplete before that counts. */
const SETTLE_MS = 50;
/**
 * How long a file must be empty before that counts: a file is rarely emptied on purpose, but slow writers truncate it
 * first.
 */
const EMPTY_SETTLE_MS = 1000;

export interface SettlingPolicyOptions {
  /** Absolute path of the tree. */
  readonly root: string;
  readonly clock: Clock;
  /** Called when there have been no events for a moment, or continuous events for too long. */
  readonly onQuiet: () => void;
  /** Called to check files again whose state did not count: path → when its change was first noticed. */
  readonly onRecheck: (paths: Iterable<readonly [path: string, eventTime: number]>) => void;
}

export class SettlingPolicy {
  readonly #options: SettlingPolicyOptions;
  readonly #timers: Timers;
  readonly #suspicions: Suspicions;
  /** Identity of the directory that was read last; undefined while it is missing. */
  #rootIdentity: string | undefined;
  #waitingSince: number | undefined;
  #quietTimer: Timer | undefined;

  constructor(options: SettlingPolicyOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#suspicions = new Suspicions(options.clock.now);
  }

  close(): void {
    this.#timers.close();
  }

  /** Something changed: `onQuiet` follows once there are no more events for a moment. */
  noteActivity(): void {
    const now = this.#options.clock.now();
    this.#waitingSince ??= now;
    this.#quietTimer?.cancel();
    const wait = Math.max(0, Math.min(QUIET_MS, this.#waitingSince + MAX_WAIT_MS - now));
    this.#quietTimer = this.#timers.after(wait, () => {
      this.#quietTimer = undefined;
      this.#waitingSince = undefined;
      this.#options.onQuiet();
    });
  }

  /**
   * Whether the directory just scanned may replace what was read before. A different directory that is empty may not.
   */
  acceptsRoot(scan: Scan, knownFiles: number): boolean {
    const identity = scan.directories.get(this.#options.root);
    if (knownFiles > 0 && scan.files.size === 0 && identity !== this.#rootIdentity) {
      this.#suspicions.clearAll();
      return false;
    }
    this.#rootIdentity = identity;
    return true;
  }

  /** The directory is missing or cannot be listed: no missing file counts as deleted. */
  noteRootMissing(): void {
    this.#rootIdentity = undefined;
    this.#suspicions.clearAll();
  }

  /** Whether a file has been missing for long enough. */
  acceptsMissing(path: string, eventTime: number): boolean {
    return this.#suspicions.believe(path, undefined, eventTime, SETTLE_MS);
  }

  /** Whether a file that cannot be read has stayed as it is for long enough. */
  acceptsUnreadable(path: string, { signature }: ScannedFile, eventTime: number): boolean {
    return this.#suspicions.believe(path, signature, eventTime, SETTLE_MS);
  }

  /** Whether a file that looks incomplete has stayed as it is for long enough. */
  acceptsIncomplete(path: string, { signature, size }: ScannedFile, eventTime: number): boolean {
    return this.#suspicions.believe(path, signature, eventTime, size === 0 ? EMPTY_SETTLE_MS : SETTLE_MS);
  }

  /** A file looks complete, or as it did when it was read. */
  clear(path: string): void {
    this.#suspicions.clear(path);
  }

  /** The time of a change's first event, which may be earlier than `eventTime` while its state does not count. */
  firstEventTime(path: string, eventTime: number): number {
    return Math.min(eventTime, this.#suspicions.noticedAt(path) ?? eventTime);
  }

  /** Schedules a check of files whose state does not count yet. */
  scheduleRecheck(): void {
    if (this.#suspicions.size === 0) return;
    this.#timers.after(SETTLE_MS, () => this.#options.onRecheck(this.#suspicions.noticed()));
  }
}
