/**
 * Keeps what proxies have learned for the next run of the program, and shares it with other replicas: after all have
 * restarted at once, proxies are sent what they use. Each replica adds what it has learned to what is saved; of two
 * that write at once, the later one takes over what the earlier one has written, and writes again.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import { oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { FORGET_MS, type LearnedHosts, type LearnedScope } from '../on-demand/index.ts';
import { readCheckpoint, writeCheckpoint } from './checkpoint.ts';

/** Where the hosts are saved. */
export interface Place {
  /** For messages: `ConfigMap mesh-system/meshd-learned-hosts`. */
  readonly title: string;
  /**
   * Begins to read.
   * @param received called with each content; undefined: there is none any more
   */
  open(received: (text: string | undefined) => void): void;
  /** Resolves with false where the content is another than was received last. Rejects if it cannot be written. */
  write(text: string): Promise<boolean>;
  close(): Promise<void>;
}

export interface SavedHostsOptions {
  readonly learned: LearnedHosts;
  readonly place: Place;
  /** Read at once; otherwise, when the first proxy learns. */
  readonly isExpected: boolean;
  readonly clock: Clock;
  /** Epoch ms. */
  readonly now: () => number;
  /** 0 ≤ x < 1 */
  readonly random: () => number;
  readonly log: Log;
}

/** How long changes are collected before they are written, and the shortest time between two writes, ms. */
const DELAY_MS = 5_000;
const PERIOD_MS = 60_000;
/** … where not all hosts can be saved: each replica would replace hosts of others by its own. */
const PERIOD_IF_TOO_LONG_MS = 600_000;
/** The last write may take so long, ms: proxies are disconnected gently only after it. */
const CLOSE_MS = 2_000;
/** The part of the time by which a write is delayed at random: replicas learn the same hosts at the same time. */
const JITTER = 0.5;
/** Interval at which times of last use are written, ms: a host that is in use must not be forgotten after a restart. */
const REFRESH_MS = FORGET_MS / 8;

export class SavedHosts {
  readonly #options: SavedHostsOptions;
  readonly #failures: FailureLog;
  #isOpen = false;
  #isClosed = false;
  /** What is saved: when each host was used last, epoch ms. */
  #saved: ReadonlyMap<string, ReadonlyMap<string, number>> = new Map();
  #timer: Timer | undefined;
  #refresh: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();
  #writtenAt = Number.NEGATIVE_INFINITY;
  #left = 0;

  constructor(options: SavedHostsOptions) {
    this.#options = options;
    const what = `${options.place.title}: the hosts that sidecars have learned`;
    this.#failures = createFailureLog(
      options.log,
      `${what} cannot be saved; after a restart of all replicas, sidecars ask for them again`,
      `${what} can be saved again`,
    );
  }

  start(): void {
    const { learned, isExpected } = this.#options;
    learned.onChanged(() => this.#changed());
    if (isExpected) this.#open();
  }

  /** Writes what is not saved yet, if that is possible soon. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#refresh?.cancel();
    if (this.#timer !== undefined) {
      this.#timer.cancel();
      this.#save();
    }
    const late = Promise.withResolvers<void>();
    const timer = this.#options.clock.setTimer(CLOSE_MS, () => {
      this.#failures.failed(`no answer within ${CLOSE_MS / 1000} s`);
      late.resolve();
    });
    await Promise.race([this.#writing, late.promise]);
    timer.cancel();
    await this.#options.place.close();
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#options.place.open((text) => this.#received(text));
    this.#refreshLater();
  }

  #received(text: string | undefined): void {
    const { learned, log, now, place } = this.#options;
    try {
      const scopes = text === undefined ? [] : readCheckpoint(text, now());
      this.#saved = timesOf(scopes, now());
      learned.add(scopes);
    } catch (error) {
      this.#saved = new Map();
      log.warn(`${place.title}: the hosts that sidecars have learned cannot be read: ${oneLineOf(error)}`);
    }
  }

  #changed(): void {
    this.#open();
    if (this.#isClosed || this.#timer !== undefined) return;
    const { clock, random } = this.#options;
    const period = this.#left > 0 ? PERIOD_IF_TOO_LONG_MS : PERIOD_MS;
    const wait = Math.max(DELAY_MS, this.#writtenAt + period - clock.now());
    this.#timer = clock.setTimer(wait * (1 + JITTER * random()), () => this.#save());
  }

  #refreshLater(): void {
    this.#refresh = this.#options.clock.setTimer(REFRESH_MS, () => {
      this.#save();
      this.#refreshLater();
    });
  }

  #save(): void {
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
  }

  /** Does not reject. */
  async #write(): Promise<void> {
    const { learned, place, now, clock } = this.#options;
    const { text, written, left } = writeCheckpoint([...learned.scopes()], now());
    this.#complain(left);
    const times = timesOf(written, now());
    if (!this.#isNews(times)) return;
    this.#writtenAt = clock.now();
    try {
      const isWritten = await place.write(text);
      this.#failures.succeeded();
      if (isWritten) {
        this.#saved = times;
        return;
      }
      // Another replica was faster: what it has written is read, and then written with what it lacks.
      this.#writtenAt = Number.NEGATIVE_INFINITY;
      this.#changed();
    } catch (error) {
      this.#failures.failed(oneLineOf(error));
      this.#changed();
    }
  }

  /** Whether hosts are not saved, or were used much later than is saved. */
  #isNews(times: ReadonlyMap<string, ReadonlyMap<string, number>>): boolean {
    for (const [scope, hosts] of times) {
      const saved = this.#saved.get(scope);
      for (const [name, at] of hosts) if (at - (saved?.get(name) ?? 0) > 2 * REFRESH_MS) return true;
    }
    return false;
  }

  #complain(left: number): void {
    const { log, place } = this.#options;
    if (left > 0 && this.#left === 0)
      log.warn(`${place.title}: the learned hosts of ${left} scopes are not saved, because they would be too long`);
    this.#left = left;
  }
}

function timesOf(scopes: readonly LearnedScope[], now: number): Map<string, ReadonlyMap<string, number>> {
  return new Map(
    scopes.map(({ scope, hosts }) => [scope, new Map(hosts.map(({ name, unusedMs }) => [name, now - unusedMs]))]),
  );
}
