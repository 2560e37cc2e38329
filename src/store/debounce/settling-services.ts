/** The endpoint changes that wait, service by service, until the endpoints of the service have been quiet. */
import type { ResourceKey } from '../../resources/index.ts';

/** Kinds of workloads, which settle by themselves. */
const WORKLOADS = ['Pod/', 'WorkloadEntry/'];

interface Settling {
  readonly openedAt: number;
  readonly keys: Set<ResourceKey>;
  lastChangeAt: number;
}

/** What {@link SettlingServices.take} returns. */
export interface Settled {
  readonly keys: ReadonlySet<ResourceKey>;
  /** Whether some service was not quiet for the whole maximum time. */
  readonly restless: boolean;
}

export class SettlingServices {
  readonly #afterMs: number;
  readonly #maxMs: number;
  /** By service. */
  readonly #settling = new Map<string, Settling>();

  /** @param options how long a service must be quiet, and how long it is waited for; ms */
  constructor({ afterMs, maxMs }: { readonly afterMs: number; readonly maxMs: number }) {
    this.#afterMs = afterMs;
    this.#maxMs = maxMs;
  }

  get isEmpty(): boolean {
    return this.#settling.size === 0;
  }

  /** @param at monotonic ms */
  changed(service: string, key: ResourceKey, at: number): void {
    const settling = this.#settling.get(service);
    if (settling === undefined) this.#settling.set(service, { openedAt: at, keys: new Set([key]), lastChangeAt: at });
    else {
      settling.keys.add(key);
      settling.lastChangeAt = Math.max(settling.lastChangeAt, at);
    }
  }

  /** When the first wait ends if nothing more changes, monotonic ms; infinite: nothing waits. */
  get firstEnd(): number {
    let first = Number.POSITIVE_INFINITY;
    for (const settling of this.#settling.values()) first = Math.min(first, this.#endOf(settling));
    return first;
  }

  /** Removes the keys of the services whose wait is over. */
  take(now: number): Settled {
    const keys = new Set<ResourceKey>();
    let restless = false;
    for (const [service, settling] of this.#settling) {
      if (this.#endOf(settling) > now) continue;
      for (const key of settling.keys) keys.add(key);
      restless ||= settling.lastChangeAt + this.#afterMs > now;
      this.#settling.delete(service);
    }
    if (keys.size > 0) this.#takeWorkloads(keys);
    return { keys, restless };
  }

  /** An endpoint is read with the workload behind it, which must not be an older one. */
  #takeWorkloads(keys: Set<ResourceKey>): void {
    for (const [service, settling] of this.#settling) {
      if (!WORKLOADS.some((kind) => service.startsWith(kind))) continue;
      for (const key of settling.keys) keys.add(key);
      this.#settling.delete(service);
    }
  }

  clear(): void {
    this.#settling.clear();
  }

  #endOf({ openedAt, lastChangeAt }: Settling): number {
    return Math.min(lastChangeAt + this.#afterMs, openedAt + this.#maxMs);
  }
}
