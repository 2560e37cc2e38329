/**
 * When to publish: after changes have been quiet for `afterMs` (CTL_DEBOUNCE_AFTER), at the latest `maxMs`
 * (CTL_DEBOUNCE_MAX) after the first of them. A window of changes is opened by its first change and closed by its
 * publish; what changes while a publish is under way belongs to the next window, which waits its own time and for that
 * publish.
 *
 * Quiet is what has been looked for: a process that is behind with its work fires its timers before it hears of what
 * happened meanwhile. So a wait that ends late is not believed before the event loop has gone round once more, and a
 * sign of a change prolongs the wait when it comes, not when what changed has been read: otherwise those who are behind
 * would publish most often.
 *
 * With `edsDebounce` false (CTL_ENABLE_EDS_DEBOUNCE) endpoint changes have no window: they are published at once,
 * alone.
 */

import type { Clock } from '../core/clock.ts';
import type { ResourceKey } from '../resources/index.ts';

/** Counted as `cfg_runtime_strategy_*`. */
export interface DebounceHooks {
  /** `_on_change_total`: changes were reported. */
  onChange(): void;
  /** `_timer_resets_total`: changes came while waiting, so the wait was prolonged. */
  onTimerReset(): void;
  /** `_timer_quiesce_reached_total`: it has been quiet for long enough. */
  onQuiesce(): void;
  /** `_timer_max_time_reached_total`: it was never quiet, and waiting any longer is not allowed. */
  onMaxTime(): void;
  /** A publish threw; what it took is lost to it, later windows are not. */
  onError(error: unknown): void;
}

export interface DebounceOptions {
  readonly afterMs: number;
  readonly maxMs: number;
  readonly edsDebounce: boolean;
  readonly clock: Clock;
  readonly hooks: DebounceHooks;
  /**
   * Takes changes from the store (those of `keys`, or all) and hands the next snapshot over. Never called again before
   * it has ended. It should not wait for proxies.
   */
  readonly publish: (keys: ReadonlySet<ResourceKey> | 'all') => void | Promise<void>;
}

export interface Debouncer {
  /**
   * Reports changed keys; an empty set says nothing. `seenAt`: monotonic ms of the last sign of a change where they
   * come from, when it is known that it has been quiet there since; the time to read what changed is then part of the
   * wait.
   */
  changed(keys: ReadonlySet<ResourceKey>, seenAt?: number): void;
  /**
   * Reports that something is changing, at `at` in monotonic ms; what it is will be reported when it is known. Prolongs
   * a wait, opens none.
   */
  changePending(at: number): void;
  /** Publishes what is pending without waiting, as after the first synchronisation. */
  flush(): void;
  /** Forgets what is pending; nothing is published any more. */
  stop(): void;
}

/** Kinds that change which addresses serve, and nothing else. */
const ENDPOINT_KINDS = ['EndpointSlice/', 'Endpoints/', 'WorkloadEntry/'];

/** Timers of a process that is not behind are more punctual than this, milliseconds. */
const LATE_MS = 5;

interface Window {
  readonly openedAt: number;
  lastChangeAt: number;
  /** The `lastChangeAt` whose wait ended late, and was not believed at once. */
  doubted: number | undefined;
  /** Set once the wait is over and only a publish under way holds it back. */
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
    if (quiet > afterMs + LATE_MS && window.doubted !== window.lastChangeAt) {
      window.doubted = window.lastChangeAt;
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

  /** Publishes what may go now; called whenever something became due or a publish has ended. */
  const publishNext = (): void => {
    if (publishing || stopped) return;
    if (window?.due === true) {
      window = undefined;
      // Everything pending is taken, endpoints with it: a storm of endpoint changes cannot hold the window back.
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
          window = { openedAt: at, lastChangeAt: at, doubted: undefined, due: false };
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
      window = { openedAt: now, lastChangeAt: now, doubted: undefined, due: true };
      publishNext();
    },
    stop() {
      stopped = true;
      timer?.cancel();
      timer = undefined;
    },
  };
}
