/**
 * Results of checks that adapters outside allow to be used again: for a time, and a number of times. Each calling proxy
 * has entries of its own, so that none displaces those of others, or learns from their timing.
 */
import type { CheckResult } from './types.ts';

/** Entries of one caller, and of all callers of a handler. */
const MAX_OF_CALLER = 500;
const MAX_ALL = 20_000;
const MAX_KEY_CHARACTERS = 4_096;
const MAX_RESPONSE_BYTES = 4_096;
/** Longest time, whatever an adapter says, ms. */
const MAX_TTL_MS = 3_600_000;

interface Entry {
  readonly result: CheckResult;
  /** Monotonic ms. */
  readonly until: number;
  uses: number;
}

export class ResultCache {
  /** By caller, the callers used last at the end. */
  readonly #callers = new Map<string, Map<string, Entry>>();
  #size = 0;

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
   * Keeps the result as its adapter allows, unless its key or response is long. The first use has taken place.
   * @param bytes length of the response
   */
  keep(caller: string, key: string, result: CheckResult, { now, bytes }: { now: number; bytes: number }): void {
    const uses = result.validUseCount - 1;
    if (uses <= 0 || result.validDurationMs <= 0) return;
    if (key.length > MAX_KEY_CHARACTERS || bytes > MAX_RESPONSE_BYTES) return;
    const entries = this.#callers.get(caller) ?? new Map<string, Entry>();
    this.#callers.delete(caller);
    this.#callers.set(caller, entries);
    this.#delete(caller, entries, key, true);
    while (entries.size >= MAX_OF_CALLER) this.#delete(caller, entries, entries.keys().next().value ?? '', true);
    entries.set(key, { result, uses, until: now + Math.min(MAX_TTL_MS, result.validDurationMs) });
    this.#size++;
    while (this.#size > MAX_ALL) this.#forgetCaller();
  }

  #forgetCaller(): void {
    const [oldest] = this.#callers;
    if (oldest === undefined) return;
    this.#size -= oldest[1].size;
    this.#callers.delete(oldest[0]);
  }

  #delete(caller: string, entries: Map<string, Entry>, key: string, keepCaller = false): void {
    if (entries.delete(key)) this.#size--;
    if (entries.size === 0 && !keepCaller) this.#callers.delete(caller);
  }
}
