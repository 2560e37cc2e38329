/** memquota: counts uses in the memory of this program, in rolling windows. */
import type { MemoryQuotaParams } from '../types.ts';
import { limitFor } from './quota-keys.ts';
import { type AdapterHost, CODE, OK, type RunningHandler } from './types.ts';

/** Steps in which a window moves. */
const STEPS = 20;

/**
 * Counters of one handler. Further keys are counted together in one more counter of their limit: an attacker who
 * invents keys neither fills the memory nor makes the handler forget the counters of others.
 */
const MAX_COUNTERS = 20_000;

/** Memory of a counter beside its key, and of each character of the key, bytes. */
const [COUNTER_BYTES, CHARACTER_BYTES] = [512, 2];

/** How often counters without use are dropped, ms. */
const SWEEP_MS = 10_000;

/** Uses of one key: by step of the window that is not over. */
class RollingCounter {
  readonly #uses: number[] = Array<number>(STEPS).fill(0);
  #step = 0;
  #sum = 0;

  /** @param step number of the current step; undefined: uses are never forgotten */
  take(max: number, step: number | undefined): boolean {
    this.#advance(step);
    if (this.#sum + 1 > max) return false;
    this.#sum++;
    const at = this.#step % STEPS;
    this.#uses[at] = (this.#uses[at] ?? 0) + 1;
    return true;
  }

  isUnused(step: number | undefined): boolean {
    this.#advance(step);
    return this.#sum === 0;
  }

  #advance(step: number | undefined): void {
    if (step === undefined || step <= this.#step) return;
    for (let passed = Math.max(this.#step + 1, step - STEPS + 1); passed <= step; passed++) {
      this.#sum -= this.#uses[passed % STEPS] ?? 0;
      this.#uses[passed % STEPS] = 0;
    }
    this.#step = step;
  }
}

interface Counted {
  readonly counter: RollingCounter;
  readonly validDurationMs: number;
  /** Releases its memory; absent for one of further keys. */
  readonly release: (() => void) | undefined;
}

/**
 * @param admit takes bytes of the namespace's memory; returns the function that releases them. Undefined: none is left
 */
export function openMemoryQuota(
  { quotas }: MemoryQuotaParams,
  host: AdapterHost,
  admit: (bytes: number) => (() => void) | undefined,
): RunningHandler {
  const counters = new Map<string, Counted>();
  const stepOf = (validDurationMs: number): number | undefined =>
    validDurationMs === 0 ? undefined : Math.floor((host.monotonic() * STEPS) / validDurationMs);
  const counterOf = (key: string, limit: string, validDurationMs: number): RollingCounter => {
    const own = counters.get(key);
    if (own?.validDurationMs === validDurationMs) return own.counter;
    const isNew = own === undefined && counters.size < MAX_COUNTERS;
    const release = isNew ? admit(COUNTER_BYTES + CHARACTER_BYTES * key.length) : own?.release;
    const wanted = release === undefined ? `further ${limit}` : key;
    const known = counters.get(wanted);
    if (known?.validDurationMs === validDurationMs) return known.counter;
    const counter = new RollingCounter();
    counters.set(wanted, { counter, validDurationMs, release });
    return counter;
  };
  const stop = host.every(SWEEP_MS, () => {
    for (const [key, { counter, validDurationMs, release }] of counters) {
      if (!counter.isUnused(stepOf(validDurationMs))) continue;
      counters.delete(key);
      release?.();
    }
  });
  return {
    daemons: 1,
    workers: 0,
    quota(built) {
      const { quota, maxAmount, validDurationMs, key } = limitFor(quotas, built);
      const counter = counterOf(key, JSON.stringify([quota.name, maxAmount, validDurationMs]), validDurationMs);
      if (counter.take(maxAmount, stepOf(validDurationMs))) return { status: OK };
      return { status: { code: CODE.RESOURCE_EXHAUSTED, message: `quota ${quota.name} is exhausted` } };
    },
    close: () => {
      stop();
      for (const { release } of counters.values()) release?.();
      counters.clear();
    },
  };
}
