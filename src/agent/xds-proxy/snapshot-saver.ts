/** Writes a snapshot to its file after changes: rarely while there are many, one write at a time. */
import type { Timer } from '../../core/clock.ts';
import { oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { Snapshot } from './snapshot.ts';
import { type SnapshotOwner, writeSnapshot } from './snapshot-file.ts';

/** A change is followed by others: the first configuration arrives in several responses. */
const DELAY_MS = 1_000;
/** Endpoints may change all the time; a snapshot of a large mesh has tens of megabytes. */
const INTERVAL_MS = 10_000;
/** Interval of attempts while the disk is full. */
const RETRY_MS = 60_000;

export interface SnapshotSaver {
  /** The snapshot has changed. */
  changed(): void;
  readonly failures: () => number;
  /** Writes the changes that have not been written. */
  close(): Promise<void>;
}

export interface SaverOptions {
  readonly path: string;
  readonly owner: SnapshotOwner;
  readonly snapshot: Snapshot;
  readonly clock: WallClock;
  readonly log: Log;
}

export function createSnapshotSaver({ path, owner, snapshot, clock, log }: SaverOptions): SnapshotSaver {
  const state = createFailureLog(
    log,
    'the snapshot cannot be saved (XDS_SAVE); the last saved one stays',
    'the snapshot can be saved again',
  );
  let isDirty = false;
  let failures = 0;
  let timer: Timer | undefined;
  let writing: Promise<void> | undefined;
  let notBefore = 0;
  let isClosed = false;

  const write = async (): Promise<void> => {
    isDirty = false;
    try {
      await writeSnapshot(path, owner, snapshot);
      state.succeeded();
      notBefore = clock.now() + INTERVAL_MS;
    } catch (error) {
      failures++;
      state.failed(oneLineOf(error));
      isDirty = true;
      notBefore = clock.now() + RETRY_MS;
    }
  };
  const schedule = (): void => {
    if (isClosed || !isDirty || timer !== undefined || writing !== undefined) return;
    timer = clock.setTimer(Math.max(DELAY_MS, notBefore - clock.now()), () => {
      timer = undefined;
      writing = write().finally(() => {
        writing = undefined;
        schedule();
      });
    });
  };
  return {
    changed() {
      isDirty = true;
      schedule();
    },
    failures: () => failures,
    async close() {
      isClosed = true;
      timer?.cancel();
      await writing;
      if (isDirty) await write();
    },
  };
}
