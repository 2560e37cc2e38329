/**
 * Reads the objects of an API server in short slices, between which pushes and probes go on. While there is little to
 * do, an object is read at once.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import type { ReadingPlace } from './reading-class.ts';
import { ReadingQueue, type Waiting } from './reading-queue.ts';
import type { ReadingShares } from './reading-shares.ts';
import { WaitingBytes } from './waiting-bytes.ts';

/** Duration of a slice, ms: the delay that other work may see. One object is the smallest slice. */
const SLICE_MS = 10;

/** An object that waits, or its deletion. Must not throw. */
export interface ObjectTask {
  /** Reads it. Returns the additional time that it will cost, ms. */
  readonly read: () => number;
  /** Reports what was read; called once after a slice, however many tasks of it have this function. */
  readonly report: () => void;
}

export interface NewTask extends ObjectTask {
  /** Unique among the objects of a source. */
  readonly id: string;
  readonly place: ReadingPlace;
  /** The approximate memory that it uses while it waits. */
  readonly bytes: () => number;
}

export interface ObjectReadingOptions {
  readonly clock: Clock;
  readonly shares: ReadingShares;
  /** Runs after other work of the event loop; default: `setImmediate`. */
  readonly soon?: (run: () => void) => void;
}

export class ObjectReading {
  readonly #clock: Clock;
  readonly #shares: ReadingShares;
  readonly #soon: (run: () => void) => void;
  readonly #queue: ReadingQueue<ObjectTask>;
  readonly #bytes = new WaitingBytes();
  /** Time used since other work of the event loop ran, ms. */
  #used = 0;
  /** Whether a slice will begin after other work of the event loop. */
  #isDue = false;
  /** Runs until a namespace may be read again. */
  #timer: Timer | undefined;
  #closed = false;

  constructor({ clock, shares, soon = setImmediate }: ObjectReadingOptions) {
    this.#clock = clock;
    this.#shares = shares;
    this.#soon = soon;
    this.#queue = new ReadingQueue(shares);
  }

  /**
   * Adds tasks, which are read in turn, at once as far as possible. A task replaces a waiting task with the same id, in
   * its place.
   */
  add(tasks: Iterable<NewTask>): void {
    if (this.#closed) return;
    const added: NewTask[] = [];
    for (const task of tasks) {
      this.#queue.set(task.id, task.place, task);
      added.push(task);
    }
    if (!this.#isDue) {
      if (this.#used < SLICE_MS) this.#slice();
      else this.#continue();
    }
    this.#boundBytes(added);
  }

  /** Whether the task waits and is the last of its namespace and class. */
  isLast(id: string): boolean {
    return this.#queue.isLast(id);
  }

  /** The task does not wait any more. */
  remove(id: string): void {
    this.#queue.delete(id);
    this.#bytes.delete(id);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #slice(): void {
    if (this.#used === 0) {
      this.#soon(() => {
        this.#used = 0;
      });
    }
    const started = this.#clock.now();
    const reports = new Set<() => void>();
    for (let now = started; now - started < SLICE_MS; ) {
      const next = this.#queue.next();
      if (next === undefined) break;
      now = this.#readOne(next, now);
      reports.add(next.item.report);
    }
    for (const report of reports) report();
    this.#used += Math.max(this.#clock.now() - started, Number.MIN_VALUE);
    this.#continue();
  }

  /** @returns when it was read */
  #readOne({ id, place, item }: Waiting<ObjectTask>, began: number): number {
    this.#bytes.delete(id);
    const expected = item.read();
    const read = this.#clock.now();
    this.#shares.charge(place, read - began + expected);
    return read;
  }

  /** Reads waiting objects at once for namespaces whose objects use too much memory. */
  #boundBytes(tasks: readonly NewTask[]): void {
    const started = this.#clock.now();
    const reports = new Set<() => void>();
    for (const task of tasks) {
      const { id, place, bytes } = task;
      if (this.#queue.get(id) !== task) continue;
      this.#bytes.set(id, place.namespace, bytes());
      while (this.#bytes.isOver(place.namespace)) {
        const next = this.#queue.nextOf(place.namespace);
        if (next === undefined) break;
        this.#readOne(next, this.#clock.now());
        reports.add(next.item.report);
      }
    }
    for (const report of reports) report();
    this.#used += this.#clock.now() - started;
  }

  /** Schedules the reading of the rest. */
  #continue(): void {
    this.#timer?.cancel();
    const { waitMs } = this.#queue;
    if (waitMs === undefined || this.#closed || this.#isDue) return;
    if (waitMs > 0) {
      this.#timer = this.#clock.setTimer(waitMs, () => this.#resume());
      return;
    }
    this.#isDue = true;
    this.#soon(() => this.#resume());
  }

  #resume(): void {
    this.#isDue = false;
    this.#used = 0;
    if (!this.#closed) this.#slice();
  }
}
