/**
 * Limits the number of views of each caller. A caller is the workloads of one service account, or everything that
 * connects from one address, possibly thousands of workloads behind a load balancer. So views that workloads of the
 * registry need do not count, except for the first few hundred, for which this is not checked.
 */
import { CtlError } from '../../core/errors.ts';

/**
 * Maximum number of views that count. Views depend on what proxies state about themselves, so a caller could otherwise
 * make the engine generate and keep any number of them.
 */
export const MAX_VIEWS_OF_CALLER = 1024;

/** From this number on, the engine checks whether workloads of the registry need a view. */
const LOOK_UP_FROM = MAX_VIEWS_OF_CALLER / 2;

/**
 * Maximum number of views of a caller for equal workloads that do not count. They differ in the capabilities of the
 * proxies: there are two versions while proxies are updated.
 */
const VARIANTS = 2;

/** The key of a view that a workload of the registry needs, equal for its variants; undefined for any other view. */
export type RegisteredKey = () => string | undefined;

/** A view that does not count. */
interface Free {
  readonly caller: string;
  readonly key: string;
}

/** @template V identifies a view in a placement */
export class CallerViews<V extends object> {
  /** Caller → number of views that count. */
  readonly #counted = new Map<string, number>();
  /** Caller and key of the registry → number of views that do not count. */
  readonly #variants = new Map<string, number>();
  /** The views that do not count. */
  readonly #free = new Map<V, Free[]>();

  /** Number of views of a caller that count. */
  countOf(caller: string): number {
    return this.#counted.get(caller) ?? 0;
  }

  /** Whether the caller may have this many more views of any kind. */
  mayHave(caller: string, more: number): boolean {
    return this.countOf(caller) + more <= MAX_VIEWS_OF_CALLER;
  }

  /**
   * Throws CtlError `resource_exhausted` when the caller would have more views than the limit.
   * @param fresh views that the caller does not have yet
   */
  admit(caller: string, fresh: readonly RegisteredKey[]): void {
    const had = this.countOf(caller);
    const counting = fresh.filter((registered) => !this.#hasRoom(caller, registered()));
    if (had + counting.length <= MAX_VIEWS_OF_CALLER) return;
    throw new CtlError(
      'resource_exhausted',
      `the proxies of ${caller} have ${had} different configurations that no workload of the registry needs; ` +
        `no more than ${MAX_VIEWS_OF_CALLER} are allowed`,
    );
  }

  /** The caller has a view that it did not have. */
  enter(caller: string, view: V, registered: RegisteredKey): void {
    const key = this.countOf(caller) < LOOK_UP_FROM ? undefined : registered();
    if (key === undefined || !this.#hasRoom(caller, key)) {
      this.#counted.set(caller, this.countOf(caller) + 1);
      return;
    }
    add(this.#variants, variantKey(caller, key), 1);
    this.#free.set(view, [...(this.#free.get(view) ?? []), { caller, key }]);
  }

  /** The caller does not have the view any more. */
  leave(caller: string, view: V): void {
    const free = this.#free.get(view) ?? [];
    const own = free.find((each) => each.caller === caller);
    if (own === undefined) {
      add(this.#counted, caller, -1);
      return;
    }
    add(this.#variants, variantKey(caller, own.key), -1);
    if (free.length === 1) this.#free.delete(view);
    else
      this.#free.set(
        view,
        free.filter((each) => each !== own),
      );
  }

  #hasRoom(caller: string, key: string | undefined): boolean {
    return key !== undefined && (this.#variants.get(variantKey(caller, key)) ?? 0) < VARIANTS;
  }
}

function variantKey(caller: string, key: string): string {
  return `${caller}\n${key}`;
}

function add(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
