/** A loop of events in which objects are read, with a clock that only reading moves. */
import { ObjectReading } from '../pacing/object-reading.ts';
import { ReadingShares } from '../pacing/reading-shares.ts';

/** Reads objects that take what they say, with turns of the event loop that the test makes. */
export class ReadingLoop {
  #now = 0;
  #soon: (() => void)[] = [];
  #timers: { readonly at: number; readonly run: () => void }[] = [];
  /** What was read, and `|` for each report. */
  readonly read: string[] = [];
  readonly reading: ObjectReading;
  readonly #report = (): void => void this.read.push('|');

  constructor() {
    const now = (): number => this.#now;
    const setTimer = (ms: number, run: () => void) => {
      const timer = { at: this.#now + ms, run };
      this.#timers.push(timer);
      const cancel = (): void => {
        this.#timers = this.#timers.filter((each) => each !== timer);
      };
      return { cancel };
    };
    const soon = (run: () => void): void => void this.#soon.push(run);
    this.reading = new ObjectReading({ clock: { now, setTimer }, shares: new ReadingShares(now), soon });
  }

  /** Time passes, as in work of the caller. */
  spend(ms: number): void {
    this.#now += ms;
  }

  add(cost: number, ...ids: readonly string[]): void {
    const read = (id: string) => () => {
      this.#now += cost;
      this.read.push(id);
      return 0;
    };
    const task = (id: string) => ({
      id,
      place: { namespace: id.split('/')[0] ?? '', readingClass: 'other' as const },
      bytes: () => 0,
      read: read(id),
      report: this.#report,
    });
    this.reading.add(ids.map(task));
  }

  /** What is read in one turn of the event loop. */
  turn(): string {
    this.read.length = 0;
    const [due, soon] = [this.#timers.filter(({ at }) => at <= this.#now), this.#soon];
    this.#timers = this.#timers.filter(({ at }) => at > this.#now);
    this.#soon = [];
    for (const { run } of due) run();
    for (const run of soon) run();
    return this.read.join(' ');
  }

  /** Waits for the next timer, when nothing else is to be done. */
  wait(): void {
    if (this.#soon.length > 0) return;
    this.#now = Math.max(this.#now, Math.min(...this.#timers.map(({ at }) => at)));
  }

  /** Goes on until nothing is to be done. */
  finish(): void {
    while (!this.isIdle) {
      this.wait();
      this.turn();
    }
  }

  get now(): number {
    return this.#now;
  }

  get isIdle(): boolean {
    return this.#timers.length === 0 && this.#soon.length === 0;
  }
}
