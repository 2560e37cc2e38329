/**
 * Results of checks that adapters outside allow to be used again: for a time, and a number of times. Each calling proxy
 * has entries of its own, so that none displaces those of others, or learns from their timing. All handlers share the
 * memory, of which the proxies of one namespace get half of what is free.
 */
import type { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { CheckResult } from './types.ts';

/** Entries of one caller of a handler. */
const MAX_OF_CALLER = 500;
const MAX_KEY_CHARACTERS = 4_096;
const MAX_RESPONSE_BYTES = 4_096;
/** Longest time, whatever an adapter says, ms. */
const MAX_TTL_MS = 3_600_000;

/** Memory of an entry beside its key and its result, and of each byte of the response, which is kept decoded, bytes. */
const [ENTRY_BYTES, RESPONSE_FACTOR] = [512, 4];

interface Entry {
  readonly result: CheckResult;
  /** Monotonic ms. */
  readonly until: number;
  readonly release: () => void;
  uses: number;
}

export class ResultCache {
  readonly #memory: FairLimiter;
  /** By caller; of each, the oldest entries come first. */
  readonly #callers = new Map<string, Map<string, Entry>>();

  /** @param memory bytes of the results of all handlers, by namespace of the callers */
  constructor(memory: FairLimiter) {
    this.#memory = memory;
  }

  /** A result that may be used now; counts as a use. */
  use(caller: string, key: string, now: number): CheckResult | undefined {
    const entries = this.#callers.get(caller);
    const entry = entries?.get(key);
    if (entries === undefined || entry === undefined) return undefined;
    entry.uses--;
    if (entry.until <= now || entry.uses <= 0) this.#delete(caller, entries, key);
    return entry.until <= now ? undefined : entry.result;
  }

  /**
   * Keeps the result as its adapter allows, if its key and response are short and memory is left for this caller; its
   * oldest results make room. The first use has taken place.
   * @param bytes length of the response
   */
  keep(caller: string, key: string, result: CheckResult, { now, bytes }: { now: number; bytes: number }): void {
    const uses = result.validUseCount - 1;
    if (uses <= 0 || result.validDurationMs <= 0) return;
    if (key.length > MAX_KEY_CHARACTERS || bytes > MAX_RESPONSE_BYTES) return;
    const entries = this.#callers.get(caller) ?? new Map<string, Entry>();
    this.#delete(caller, entries, key);
    while (entries.size >= MAX_OF_CALLER) this.#deleteOldest(caller, entries);
    const size = ENTRY_BYTES + key.length + RESPONSE_FACTOR * bytes;
    const namespace = namespaceOf(caller);
    let release = this.#memory.enter(namespace, size);
    while (release === undefined && entries.size > 0) {
      this.#deleteOldest(caller, entries);
      release = this.#memory.enter(namespace, size);
    }
    if (release === undefined) return;
    entries.set(key, { result, uses, release, until: now + Math.min(MAX_TTL_MS, result.validDurationMs) });
    this.#callers.set(caller, entries);
  }

  /** Releases the memory of results whose time is over. */
  sweep(now: number): void {
    for (const [caller, entries] of this.#callers)
      for (const [key, { until }] of entries) if (until <= now) this.#delete(caller, entries, key);
  }

  clear(): void {
    this.sweep(Number.POSITIVE_INFINITY);
  }

  #deleteOldest(caller: string, entries: Map<string, Entry>): void {
    const [oldest] = entries.keys();
    if (oldest !== undefined) this.#delete(caller, entries, oldest);
  }

  #delete(caller: string, entries: Map<string, Entry>, key: string): void {
    entries.get(key)?.release();
    entries.delete(key);
    if (entries.size === 0) this.#callers.delete(caller);
  }
}

/** Of the SPIFFE ID of a caller; a caller without one has a share of its own. */
function namespaceOf(caller: string): string {
  return /\/ns\/([^/]+)\/sa\//.exec(caller)?.[1] ?? caller;
}
