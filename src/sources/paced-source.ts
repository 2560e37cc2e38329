/**
 * Limits how often the changes of a source are passed on, so that it cannot delay the changes of others. Each change
 * prolongs the debounce (`store/debounce/debounce.ts`), so a source that never pauses would delay the changes of all.
 * If it sends too often, its changes are collected (the newest by key) and passed on at times that all such sources
 * share, with quiet in between.
 */
import type { Clock, Timer } from '../core/clock.ts';
import { messageOf } from '../core/errors.ts';
import { TokenBucket } from '../core/fairness/token-bucket.ts';
import type { Log } from '../core/log.ts';
import { eventId, type ResourceEvent, type ResourceKey, type ResourceList } from '../resources/index.ts';
import { applyInSlices, replaceInSlices, type Source, type SourceSink } from './source.ts';
import { isInList } from './staged-sink.ts';

/** Interval at which collected changes are passed on, ms: several times CTL_DEBOUNCE_AFTER. */
export const PACE_MS = 1000;
/**
 * Number of batches of changes that are passed on without delay after a quiet time. Another is allowed every PACE_MS.
 */
export const PACE_BURST = 30;
/** If a source was not delayed for this long, ms, its next delay is logged again. */
const CALM_MS = 60_000;

export interface PaceOptions {
  /**
   * Whether an event changes nothing but endpoints, which do not delay the changes of others: it is passed on at once,
   * unless an earlier one of its key waits. Default: no event.
   */
  readonly isOfEndpoints?: (event: ResourceEvent) => boolean;
  readonly clock: Clock;
  readonly log: Log;
  /** What the source is called in the log; absent: its cluster. */
  readonly name?: string;
  /** Called with the number of changes that were delayed. */
  readonly onDelayed?: (changes: number) => void;
}

/** Wraps a source. Lists are passed on at once, because a source lists rarely. */
export function pacedSource(source: Source, options: PaceOptions): Source {
  let sink: PacedSink | undefined;
  return {
    id: source.id,
    cluster: source.cluster,
    synced: source.synced,
    start(to) {
      sink = new PacedSink(to, source.cluster, options);
      source.start(sink);
    },
    health: () => source.health(),
    async close() {
      sink?.close();
      await source.close();
    },
  };
}

/** Changes on their way, by id, without those of which a newer list has come. */
interface Passing {
  events: ReadonlyMap<string, ResourceEvent>;
}

class PacedSink implements SourceSink {
  readonly #sink: SourceSink;
  readonly #name: string;
  readonly #options: PaceOptions;
  readonly #bucket: TokenBucket;
  /** Changes that wait, the newest by id. */
  readonly #collected = new Map<string, ResourceEvent>();
  #timer: Timer | undefined;
  /** Settles when the collected changes have been applied; undefined while nobody waits for them. */
  #done: PromiseWithResolvers<void> | undefined;
  /** Collected changes that are being applied in slices: later ones are collected meanwhile. */
  #passing: Passing | undefined;
  #delayedAt = Number.NEGATIVE_INFINITY;
  /** Why the collected changes could not be passed on, as it was logged last. */
  #problem = '';
  #closed = false;

  constructor(sink: SourceSink, cluster: string, options: PaceOptions) {
    this.#sink = sink;
    this.#name = options.name ?? `cluster ${cluster}`;
    this.#options = options;
    this.#bucket = new TokenBucket({ rate: 1000 / PACE_MS, burst: PACE_BURST, now: () => options.clock.now() });
  }

  apply(...[all, seenAt]: Parameters<SourceSink['apply']>): void {
    for (const events of this.#due(all)) this.#sink.apply(events, seenAt);
  }

  applyInSlices(...[all, seenAt]: Parameters<SourceSink['apply']>): Promise<void> | undefined {
    if (this.#closed) return undefined;
    const running: Promise<void>[] = [];
    let passed = 0;
    for (const events of this.#due(all)) {
      passed += events.length;
      const applied = applyInSlices(this.#sink, events, seenAt);
      if (applied === undefined) continue;
      // If the next ones throw, nobody waits for these.
      applied.catch(() => {});
      running.push(applied);
    }
    if (passed < all.length) {
      this.#done ??= Promise.withResolvers();
      running.push(this.#done.promise);
    }
    return running.length === 0 ? undefined : Promise.all(running).then(() => {});
  }

  /** The changes that are passed on now; collects the others. */
  *#due(all: readonly ResourceEvent[]): Iterable<readonly ResourceEvent[]> {
    if (this.#closed) return;
    const { isOfEndpoints = () => false } = this.#options;
    const waits = (id: string): boolean => this.#collected.has(id) || this.#passing?.events.has(id) === true;
    const isUrgent = (event: ResourceEvent): boolean => !waits(eventId(event)) && isOfEndpoints(event);
    const urgent = all.filter(isUrgent);
    if (urgent.length > 0) yield urgent;
    const events = urgent.length === 0 ? all : all.filter((event) => !urgent.includes(event));
    if (events.length === 0) return;
    if (!this.delays()) {
      if (this.#bucket.take() === 0) {
        yield events;
        return;
      }
      this.#logDelay();
      this.#wait();
    }
    for (const event of events) this.#collected.set(eventId(event), event);
    this.#options.onDelayed?.(events.length);
  }

  /** What was collected comes first: the list is newer. */
  replace(...[list, seenAt]: Parameters<SourceSink['replace']>): void {
    if (this.#closed) return;
    this.#passOnBefore(list);
    this.#sink.replace(list, seenAt);
  }

  replaceInSlices(...[list, seenAt]: Parameters<SourceSink['replace']>): Promise<void> | undefined {
    if (this.#closed) return undefined;
    this.#passOnBefore(list);
    return replaceInSlices(this.#sink, list, seenAt);
  }

  #passOnBefore(list: ResourceList): void {
    if (this.#collected.size > 0) this.#sink.apply([...this.#collected.values()]);
    this.#collected.clear();
    this.#supersede(list);
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#done?.resolve();
    this.#done = undefined;
  }

  /** What the list covers of the changes that are being applied need not be applied again. */
  #supersede(list: ResourceList): void {
    if (this.#passing === undefined) return;
    // The end of a problem must not follow a list that has the problem.
    const isLeft = (event: ResourceEvent): boolean => event.type !== 'resolved' && !isInList(list, event);
    const left = [...this.#passing.events].filter(([, event]) => isLeft(event));
    if (left.length > 0) this.#passing.events = new Map(left);
    else this.#passing = undefined;
  }

  /** A change that will be collected must not prolong the wait of others. */
  changing(at: number): void {
    if (!this.#closed && !this.delays()) this.#sink.changing(at);
  }

  delays(): boolean {
    return this.#timer !== undefined || this.#passing !== undefined;
  }

  refusals(): ReadonlyMap<ResourceKey, string> {
    return this.#sink.refusals?.() ?? new Map();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#collected.clear();
  }

  #logDelay(): void {
    const { clock, log } = this.#options;
    const now = clock.now();
    const isCalm = now - this.#delayedAt > CALM_MS;
    this.#delayedAt = now;
    if (!isCalm) return;
    const text = 'changes arrive too fast; until there are fewer, they take effect once a second';
    log.warn(`${this.#name}: ${text}`);
  }

  #wait(): void {
    const { clock } = this.#options;
    this.#timer = clock.setTimer(PACE_MS - (clock.now() % PACE_MS), () => {
      this.#timer = undefined;
      this.#bucket.take();
      this.#passOn();
    });
  }

  /** Passes on what was collected, in slices if the sink can do that. */
  #passOn(): void {
    const passing: Passing = { events: new Map(this.#collected) };
    const done = this.#done;
    this.#collected.clear();
    this.#done = undefined;
    this.#passing = passing;
    /** False where lists have come since then that cover all of them. */
    const isCurrent = (): boolean => {
      const is = this.#passing === passing;
      if (is) this.#passing = undefined;
      return is;
    };
    const passed = (): void => {
      done?.resolve();
      if (!isCurrent()) return;
      this.#problem = '';
      if (this.#collected.size > 0 && this.#timer === undefined && !this.#closed) this.#wait();
    };
    const failed = (error: unknown): void => {
      if (!isCurrent()) done?.resolve();
      else if (!this.#closed) this.#keep(passing.events, done, error);
    };
    try {
      const applied = applyInSlices(this.#sink, [...passing.events.values()]);
      if (applied === undefined) passed();
      else applied.then(passed, failed);
    } catch (error) {
      failed(error);
    }
  }

  /** Changes that cannot be passed on stay collected, before those that came meanwhile. */
  #keep(older: ReadonlyMap<string, ResourceEvent>, done: PromiseWithResolvers<void> | undefined, error: unknown): void {
    const newer = new Map(this.#collected);
    this.#collected.clear();
    for (const [id, event] of older) if (!newer.has(id)) this.#collected.set(id, event);
    for (const [id, event] of newer) this.#collected.set(id, event);
    if (done !== undefined) {
      this.#done ??= Promise.withResolvers();
      this.#done.promise.then(done.resolve);
    }
    const problem = `cannot apply changes: ${messageOf(error)}; retrying every second`;
    if (problem !== this.#problem) this.#options.log.error(`${this.#name}: ${problem}`);
    this.#problem = problem;
    if (this.#timer === undefined) this.#wait();
  }
}
