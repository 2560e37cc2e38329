/**
 * When to publish: after changes have been quiet for `afterMs` (CTL_DEBOUNCE_AFTER), at the latest `maxMs`
 * (CTL_DEBOUNCE_MAX) after the first of them. A window of changes is opened by its first change and closed by its
 * publish; changes during a publish belong to the next window, which waits its own time and for that publish.
 *
 * A process that is behind with its work runs its timers before it handles the events that arrived in the meantime. So
 * when a timer fires late, the wait ends only after one more turn of the event loop; and a sign of a change prolongs
 * the wait when it arrives, not when the change has been read. Otherwise a process that is behind would publish most
 * often.
 *
 * With `edsDebounce` false (CTL_ENABLE_EDS_DEBOUNCE) endpoint changes have no window: they are published at once,
 * alone.
 */

import type { Clock } from '../core/clock.ts';
import type { ResourceKey } from '../resources/index.ts';

/** Counted by the metrics `cfg_runtime_strategy_*`. */
export interface DebounceHooks {
  /** `_on_change_total`: changes were reported. */
  onChange(): void;
  /** `_timer_resets_total`: changes came while waiting, so the wait was prolonged. */
  onTimerReset(): void;
  /** `_timer_quiesce_reached_total`: it has been quiet for long enough. */
  onQuiesce(): void;
  /** `_timer_max_time_reached_total`: it was never quiet, and the maximum wait is over. */
  onMaxTime(): void;
  /** A publish threw; its changes are lost, later windows are not affected. */
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
   * Reports changed keys; an empty set is ignored. `seenAt`: monotonic ms of the last sign of a change at the source,
   * if it is known to have been quiet since; the time spent on reading the change is then part of the wait.
   */
  changed(keys: ReadonlySet<ResourceKey>, seenAt?: number): void;
  /**
   * Reports a sign of a change at `at`, monotonic ms; the change itself is reported later, if there is one. Prolongs a
   * wait, but starts none.
   */
  changePending(at: number): void;
  /** Publishes pending changes without waiting, as after the first synchronisation. */
  flush(): void;
  /** Drops pending changes; nothing is published any more. */
  stop(): void;
}

/** Kinds that change nothing but the endpoints of services. */
const ENDPOINT_KINDS = ['EndpointSlice/', 'Endpoints/', 'WorkloadEntry/'];

/** A timer that fires later than this, in milliseconds, means that the process is behind. */
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
  const { afterMs, maxMs, clock, hooks } = options;
  let window: Window | undefined;
  let timer: { cancel(): void } | undefined;
  let publishing = false;
  let stopped = false;
  const urgent = new Set<ResourceKey>();

  const arm = (open: Window): void => {
    const wait = Math.min(open.lastChangeAt + afterMs, open.openedAt + maxMs) - clock.now();
    timer = clock.setTimer(Math.max(0, wait), onTimer);
  };

  const onTimer = (): void => {
    timer = undefined;
    if (window === undefined) return;
    const now = clock.now();
    const quiet = now - window.lastChangeAt;
    if (quiet > afterMs + LATE_MS && window.rechecked !== window.lastChangeAt) {
      window.rechecked = window.lastChangeAt;
      timer = clock.setTimer(0, onTimer);
      return;
    }
    if (quiet >= afterMs) hooks.onQuiesce();
    else if (now - window.openedAt >= maxMs) hooks.onMaxTime();
    else {
      hooks.onTimerReset();
      arm(window);
      return;
    }
    window.due = true;
    publishNext();
  };

  /** Publishes changes whose wait is over; called when a wait or a publish has ended. */
  const publishNext = (): void => {
    if (publishing || stopped) return;
    if (window?.due === true) {
      window = undefined;
      // Takes everything pending, including endpoints: a storm of endpoint changes cannot delay the window.
      urgent.clear();
      run('all');
    } else if (urgent.size > 0) {
      const keys = new Set(urgent);
      urgent.clear();
      run(keys);
    }
  };

  const run = (keys: ReadonlySet<ResourceKey> | 'all'): void => {
    publishing = true;
    Promise.try(options.publish, keys)
      .catch((error: unknown) => hooks.onError(error))
      .finally(() => {
        publishing = false;
        publishNext();
      });
  };

  return {
    changed(keys, seenAt) {
      if (keys.size === 0 || stopped) return;
      hooks.onChange();
      let waits = false;
      for (const key of keys) {
        if (!options.edsDebounce && ENDPOINT_KINDS.some((kind) => key.startsWith(kind))) urgent.add(key);
        else waits = true;
      }
      if (waits) {
        const at = Math.min(seenAt ?? Number.POSITIVE_INFINITY, clock.now());
        if (window === undefined) {
          window = { openedAt: at, lastChangeAt: at, rechecked: undefined, due: false };
          arm(window);
        } else window.lastChangeAt = Math.max(window.lastChangeAt, at);
      }
      publishNext();
    },
    changePending(at) {
      if (window !== undefined) window.lastChangeAt = Math.max(window.lastChangeAt, Math.min(at, clock.now()));
    },
    flush() {
      timer?.cancel();
      timer = undefined;
      urgent.clear();
      const now = clock.now();
      window = { openedAt: now, lastChangeAt: now, rechecked: undefined, due: true };
      publishNext();
    },
    stop() {
      stopped = true;
      timer?.cancel();
      timer = undefined;
    },
  };
}
