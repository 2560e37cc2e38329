/**
 * When to publish: after changes have been quiet for `afterMs` (CTL_DEBOUNCE_AFTER), at the latest `maxMs`
 * (CTL_DEBOUNCE_MAX) after the first of them. A window of changes is opened by its first change and closed by its
 * publish; changes during a publish belong to the next window, which waits its own time and for that publish.
 *
 * An overloaded process runs its timers before it handles the events that arrived in the meantime. Therefore, when a
 * timer fires late, the wait ends only after one more turn of the event loop, and the announcement of a change prolongs
 * the wait when it arrives, not when the change has been read. Otherwise an overloaded process would publish most
 * often.
 *
 * With `edsDebounce` false (CTL_ENABLE_EDS_DEBOUNCE) endpoint changes have no window: they are published at once,
 * alone.
 */

import type { Clock, Timer } from '../../core/clock.ts';
import type { ResourceKey } from '../../resources/index.ts';

/** Counted by the metrics `cfg_runtime_strategy_*`. */
export interface DebounceHooks {
  /** `_on_change_total`: changes were reported. */
  onChange(): void;
  /** `_timer_resets_total`: changes came while waiting, so the wait was prolonged. */
  onTimerReset(): void;
  /** `_timer_quiesce_reached_total`: it has been quiet for long enough. */
  onQuiesce(): void;
  /** `_timer_max_time_reached_total`: the maximum wait is over without a quiet time. */
  onMaxTime(): void;
  /** A publish failed with an error; its changes are lost, later windows are not affected. */
  onError(error: unknown): void;
}

export interface DebounceOptions {
  readonly afterMs: number;
  readonly maxMs: number;
  readonly edsDebounce: boolean;
  readonly clock: Clock;
  readonly hooks: DebounceHooks;
  /**
   * Takes changes from the store (those of `keys`, or all) and publishes the next snapshot. Not called again before it
   * has ended. It should not wait for proxies.
   */
  readonly publish: (keys: ReadonlySet<ResourceKey> | 'all') => void | Promise<void>;
}

export interface Debouncer {
  /**
   * Reports changed keys; an empty set is ignored. `seenAt`: monotonic ms of the last announcement of a change by the
   * source, if it is known to have been quiet since; the time spent on reading the change is then part of the wait.
   */
  changed(keys: ReadonlySet<ResourceKey>, seenAt?: number): void;
  /**
   * Announces a change at `at`, monotonic ms; the change itself is reported later, if there is one. Prolongs a wait,
   * but does not start one.
   */
  changePending(at: number): void;
  /** Publishes pending changes without waiting, as after the first synchronisation. */
  flush(): void;
  /** Drops pending changes; nothing is published any more. */
  stop(): void;
}

/** Kinds that change nothing but the endpoints of services. */
const ENDPOINT_KINDS = ['EndpointSlice/', 'Endpoints/', 'WorkloadEntry/'];

/** If a timer fires later than this, in milliseconds, the process is overloaded. */
const LATE_MS = 5;

interface Window {
  readonly openedAt: number;
  lastChangeAt: number;
  /** The `lastChangeAt` whose timer fired late, so that the wait takes one more turn of the event loop. */
  rechecked: number | undefined;
  /** True when the wait is over and only a running publish delays the next one. */
  due: boolean;
}

export function createDebouncer(options: DebounceOptions): Debouncer {
  return new WindowDebouncer(options);
}

class WindowDebouncer implements Debouncer {
  readonly #options: DebounceOptions;
  /** Endpoint changes to publish without a window. */
  readonly #urgent = new Set<ResourceKey>();
  #window: Window | undefined;
  #timer: Timer | undefined;
  #publishing = false;
  #stopped = false;

  constructor(options: DebounceOptions) {
    this.#options = options;
  }

  changed(keys: ReadonlySet<ResourceKey>, seenAt = Number.POSITIVE_INFINITY): void {
    if (keys.size === 0 || this.#stopped) return;
    const { clock, edsDebounce, hooks } = this.#options;
    hooks.onChange();
    let waits = false;
    for (const key of keys) {
      if (!edsDebounce && ENDPOINT_KINDS.some((kind) => key.startsWith(kind))) this.#urgent.add(key);
      else waits = true;
    }
    if (waits) {
      const at = Math.min(seenAt, clock.now());
      if (this.#window === undefined) {
        this.#window = { openedAt: at, lastChangeAt: at, rechecked: undefined, due: false };
        this.#arm(this.#window);
      } else this.#prolong(this.#window, at);
    }
    this.#publishNext();
  }

  changePending(at: number): void {
    if (this.#window !== undefined) this.#prolong(this.#window, Math.min(at, this.#options.clock.now()));
  }

  flush(): void {
    this.#cancelTimer();
    this.#urgent.clear();
    const now = this.#options.clock.now();
    this.#window = { openedAt: now, lastChangeAt: now, rechecked: undefined, due: true };
    this.#publishNext();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  #prolong(window: Window, at: number): void {
    window.lastChangeAt = Math.max(window.lastChangeAt, at);
  }

  #cancelTimer(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm({ openedAt, lastChangeAt }: Window): void {
    const { afterMs, maxMs, clock } = this.#options;
    const wait = Math.min(lastChangeAt + afterMs, openedAt + maxMs) - clock.now();
    this.#timer = clock.setTimer(Math.max(0, wait), () => this.#onTimer());
  }

  #onTimer(): void {
    this.#timer = undefined;
    const window = this.#window;
    if (window === undefined) return;
    const { afterMs, maxMs, clock, hooks } = this.#options;
    const now = clock.now();
    const quiet = now - window.lastChangeAt;
    if (quiet > afterMs + LATE_MS && window.rechecked !== window.lastChangeAt) {
      window.rechecked = window.lastChangeAt;
      this.#timer = clock.setTimer(0, () => this.#onTimer());
      return;
    }
    if (quiet >= afterMs) hooks.onQuiesce();
    else if (now - window.openedAt >= maxMs) hooks.onMaxTime();
    else {
      hooks.onTimerReset();
      this.#arm(window);
      return;
    }
    window.due = true;
    this.#publishNext();
  }

  /** Publishes changes whose wait is over; called when a wait or a publish has ended. */
  #publishNext(): void {
    if (this.#publishing || this.#stopped) return;
    if (this.#window?.due === true) {
      this.#window = undefined;
      // Takes everything pending, including endpoints: a flood of endpoint changes cannot delay the window.
      this.#urgent.clear();
      this.#publish('all');
    } else if (this.#urgent.size > 0) {
      const keys = new Set(this.#urgent);
      this.#urgent.clear();
      this.#publish(keys);
    }
  }

  #publish(keys: ReadonlySet<ResourceKey> | 'all'): void {
    this.#publishing = true;
    const { publish, hooks } = this.#options;
    Promise.try(publish, keys)
      .catch((error: unknown) => hooks.onError(error))
      .finally(() => {
        this.#publishing = false;
        this.#publishNext();
      });
  }
}
