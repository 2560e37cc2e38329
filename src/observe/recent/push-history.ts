/**
 * The last published changes: what changed, why, how long each stage took, and which part of the proxies needed it.
 * Where a proxy is sent several changes at once, its push counts for the earliest of them.
 */
import type { RecentPush } from './shapes.ts';
import { Times } from './times.ts';

/** The number of changes that are kept. */
const KEPT = 200;
/** The number of changed resources that an entry names, and the characters of a name. */
const NAMED = 10;
const MAX_NAME = 300;

export interface PublishedChange {
  /** Version of the snapshot. */
  readonly version: number;
  /** Monotonic ms of the earliest event. */
  readonly eventTime: number;
  /** `Kind/namespace/name` of the changed resources. */
  readonly keys: readonly string[];
  /** Time to build the snapshot, ms. */
  readonly milliseconds: number;
}

/** A change whose proxies have acknowledged it, for traces. */
export interface CompletedPush extends RecentPush {
  /** Counts from the start of the program. */
  readonly number: number;
  /** When each stage began for the first view and ended for the last one, Unix ms. */
  readonly stageTimes: ReadonlyMap<PushStage, { readonly begin: number; readonly end: number }>;
}

/** A change is complete when nothing of it is under way for this time, ms, or after the longest time. */
const QUIET_MS = 2000;
const COMPLETE_AFTER_MS = 60_000;

export type PushStage = 'views' | 'generate' | 'intern';

class Entry {
  readonly #change: PublishedChange;
  readonly #at: number;
  readonly #named: readonly string[];
  readonly #debounce: number;
  readonly number: number;
  readonly publishedAt: number;
  readonly stageTimes = new Map<PushStage, { begin: number; end: number }>();
  readonly triggers = new Set<string>();
  readonly stages = { views: 0, generate: 0, intern: 0 };
  readonly times = new Times();
  underWay = 0;
  without = 0;
  bytes = 0;

  constructor(number: number, change: PublishedChange, now: number, wall: number) {
    this.number = number;
    this.publishedAt = now;
    this.#change = { ...change, keys: [] };
    this.#named = change.keys.slice(0, NAMED).map((key) => key.slice(0, MAX_NAME));
    this.changed = change.keys.length;
    this.#at = wall - (now - change.eventTime);
    this.#debounce = Math.max(0, now - change.eventTime - change.milliseconds);
  }

  readonly changed: number;

  stage(stage: PushStage, milliseconds: number, wall: number): void {
    this.stages[stage] += milliseconds;
    const known = this.stageTimes.get(stage);
    const begin = wall - milliseconds;
    if (known === undefined) this.stageTimes.set(stage, { begin, end: wall });
    else {
      known.begin = Math.min(known.begin, begin);
      known.end = wall;
    }
  }

  shown(): RecentPush {
    const { count, max } = this.times;
    const [p50, p99] = [this.times.quantile(0.5), this.times.quantile(0.99)];
    const { views, generate, intern } = this.stages;
    const stages = { debounce: this.#debounce, snapshot: this.#change.milliseconds, views, generate, intern };
    return {
      version: this.#change.version,
      at: Math.round(this.#at),
      triggers: [...this.triggers],
      resources: this.#named,
      changed: this.changed,
      acknowledged: count,
      underWay: this.underWay,
      without: this.without,
      bytes: this.bytes,
      ...(p50 !== undefined && p99 !== undefined && { p50: rounded(p50), p99: rounded(p99), max: rounded(max) }),
      stages: Object.fromEntries(Object.entries(stages).map(([name, ms]) => [name, rounded(ms)])),
    };
  }
}

/** A push to a proxy that has not acknowledged it. */
interface UnderWay {
  readonly entry: Entry | undefined;
  bytes: number;
}

export interface PushHistoryOptions {
  /** Monotonic ms. */
  readonly now: () => number;
  /** Unix ms. */
  readonly wall: () => number;
}

export class PushHistory {
  readonly #options: PushHistoryOptions;
  /** By event time, the oldest first. */
  readonly #entries = new Map<number, Entry>();
  /** By connection. */
  readonly #underWay = new Map<string, UnderWay>();
  #newest: Entry | undefined;
  #number = 0;

  constructor(options: PushHistoryOptions) {
    this.#options = options;
  }

  /** A change was published; what the following calls report about the engine belongs to it. */
  published(change: PublishedChange): void {
    const entry = new Entry(++this.#number, change, this.#options.now(), this.#options.wall());
    this.#newest = entry;
    this.#entries.delete(change.eventTime);
    this.#entries.set(change.eventTime, entry);
    if (this.#entries.size <= KEPT) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }

  triggered(reason: string): void {
    this.#newest?.triggers.add(reason);
  }

  stage(stage: PushStage, milliseconds: number): void {
    this.#newest?.stage(stage, milliseconds, this.#options.wall());
  }

  /** A change is on its way to a proxy; each call is followed by one of {@link ended}. */
  began(connectionId: string, eventTime: number): void {
    const entry = this.#entries.get(eventTime);
    if (entry !== undefined) entry.underWay++;
    this.#underWay.set(connectionId, { entry, bytes: 0 });
  }

  /** A response was sent. */
  sent(connectionId: string, bytes: number): void {
    const push = this.#underWay.get(connectionId);
    if (push !== undefined) push.bytes += bytes;
  }

  /** @param milliseconds from the event; undefined: the proxy needed nothing, or is gone */
  ended(connectionId: string, milliseconds: number | undefined): void {
    const push = this.#underWay.get(connectionId);
    this.#underWay.delete(connectionId);
    const entry = push?.entry;
    if (push === undefined || entry === undefined) return;
    entry.underWay--;
    entry.bytes += push.bytes;
    if (milliseconds === undefined) entry.without++;
    else entry.times.add(milliseconds);
  }

  /** Complete changes after the one with this number, the oldest first, up to the first that is not complete. */
  completed(since: number): CompletedPush[] {
    const now = this.#options.now();
    const found: CompletedPush[] = [];
    for (const entry of this.#entries.values()) {
      if (entry.number <= since) continue;
      const age = now - entry.publishedAt;
      if (age < QUIET_MS || (entry.underWay > 0 && age < COMPLETE_AFTER_MS)) break;
      found.push({ ...entry.shown(), number: entry.number, stageTimes: entry.stageTimes });
    }
    return found;
  }

  /** The newest first. */
  recent(): RecentPush[] {
    return [...this.#entries.values()].reverse().map((entry) => entry.shown());
  }
}

/** One digit after the point. */
function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}
