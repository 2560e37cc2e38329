/**
 * When to publish: after changes have been quiet for `afterMs` (CTL_DEBOUNCE_AFTER), at the latest `maxMs`
 * (CTL_DEBOUNCE_MAX) after the first of them. A window of changes is opened by its first change and closed by its
 * publish; changes during a publish belong to the next window, which waits its own time and for that publish.
 *
 * Configuration has one window. The endpoints of each service have their own, so that a service whose endpoints are
 * quiet does not wait for others: in a large mesh some service always changes. Services whose wait is over are
 * published together, and after each publish endpoints wait as long as {@link pause} says. The window of configuration
 * takes all pending endpoints along.
 *
 * An overloaded process runs its timers before it handles the events that arrived in the meantime. Therefore, when a
 * timer fires late, the wait ends only after one more turn of the event loop, and the announcement of a change prolongs
 * the wait when it arrives, not when the change has been read. Otherwise an overloaded process would publish most
 * often. In a process that is not overloaded, what is announced while earlier announcements are waited for does not
 * count: it may turn out to be of endpoints.
 *
 * With `edsDebounce` false (CTL_ENABLE_EDS_DEBOUNCE) endpoint changes have no windows: they are published at once,
 * without other changes.
 */

import type { Clock, Timer } from '../../core/clock.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { SettlingServices } from './settling-services.ts';

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
  /** The service whose endpoints a pending change is about; undefined if more than endpoints may change. */
  readonly endpointsOf: (key: ResourceKey) => string | undefined;
  /** How long the main thread has worked since start, ms. */
  readonly busyMs: () => number;
  /**
   * Takes changes from the store (those of `keys`, or all) and publishes the next snapshot. Not called again before it
   * has ended. It should not wait for proxies. After `stopped` nothing may be published.
   */
  readonly publish: (keys: ReadonlySet<ResourceKey> | 'all', stopped: AbortSignal) => void | Promise<void>;
}

export interface Debouncer {
  /**
   * Reports changed keys; an empty set is ignored. `seenAt`: monotonic ms of the last announcement of a change by the
   * source, if it is known to have been quiet since; the time spent on reading the change is then part of the wait.
   */
  changed(keys: ReadonlySet<ResourceKey>, seenAt?: number): void;
  /**
   * Announces a change at `at`, monotonic ms; the change itself is reported later, if there is one. A wait does not end
   * before the changes that were announced in it are reported, or `afterMs` after the last of them.
   */
  changePending(at: number): void;
  /** Publishes pending changes without waiting, as after the first synchronisation. */
  flush(): void;
  /** Drops pending changes; nothing is published any more. */
  stop(): void;
}

/** If a timer fires later than this, in milliseconds, the process is overloaded. */
const LATE_MS = 5;

/**
 * After a publish of endpoints the main thread works for its proxies. Until the next one, it must have been idle for
 * this many times as long, so that many changes are sent together where sending is expensive: a push to a thousand
 * proxies takes 30 ms, almost whatever it contains.
 */
const IDLE_PER_BUSY = 4;

/** So much after configuration endpoints are published that it has not taken along, ms. */
const AFTER_WINDOW_MS = 1;

/**
 * The longest time from a publish of endpoints to the next one that is due, ms: with CTL_DEBOUNCE_AFTER (100 ms) and
 * the push to a thousand proxies, an endpoint arrives within 400 ms.
 */
const MAX_PAUSE_MS = 220;

interface Window {
  readonly openedAt: number;
  lastChangeAt: number;
  /** The last announcement of a change that was not reported yet. */
  announcedAt: number | undefined;
  /** When the timer should fire. */
  timerAt: number;
  /** The `timerAt` of a timer that fired late, so that the wait takes one more turn of the event loop. */
  rechecked: number | undefined;
  /** The announcement that is waited for after the quiet time. */
  awaited: number | undefined;
  /** True when the wait is over and only a running publish delays the next one. */
  due: boolean;
}

function windowAt(at: number): Window {
  const nothing = { announcedAt: undefined, rechecked: undefined, awaited: undefined };
  return { openedAt: at, lastChangeAt: at, timerAt: at, ...nothing, due: false };
}

export function createDebouncer(options: DebounceOptions): Debouncer {
  return new WindowDebouncer(options);
}

/** How long endpoints wait after a publish, in ms. @param busyMs how long the main thread has worked since then */
export function pause(busyMs: number): number {
  return Math.min(MAX_PAUSE_MS, busyMs * (1 + IDLE_PER_BUSY));
}

class WindowDebouncer implements Debouncer {
  readonly #options: DebounceOptions;
  /** Endpoint changes to publish without a window. */
  readonly #urgent = new Set<ResourceKey>();
  /** Endpoint changes that wait. */
  readonly #settling: SettlingServices;
  #window: Window | undefined;
  #timer: Timer | undefined;
  #endpointTimer: Timer | undefined;
  /** The wait of some services is over, and only a running publish delays the next one. */
  #endpointsDue = false;
  /** The last publish of endpoints: when, and how long the main thread had worked by then. */
  #lastEndpoints = { at: Number.NEGATIVE_INFINITY, busyMs: 0 };
  #publishing = false;
  readonly #stopped = new AbortController();

  constructor(options: DebounceOptions) {
    this.#options = options;
    this.#settling = new SettlingServices(options);
  }

  changed(keys: ReadonlySet<ResourceKey>, seenAt = Number.POSITIVE_INFINITY): void {
    if (keys.size === 0 || this.#stopped.signal.aborted) return;
    const { clock, edsDebounce, hooks, endpointsOf } = this.#options;
    hooks.onChange();
    const at = Math.min(seenAt, clock.now());
    const services = Array.from(keys, (key) => [key, endpointsOf(key)] as const);
    const waits = services.some(([, service]) => service === undefined);
    if (waits) this.#configurationChanged(at);
    // What was changed together with configuration is published with it: endpoints that are removed together with the
    // route to them must not be missing first.
    for (const [key, service] of services) {
      if (service === undefined) continue;
      if (!edsDebounce) this.#urgent.add(key);
      else if (!waits) this.#settling.changed(service, key, at);
    }
    this.#reported(seenAt);
    this.#armEndpoints();
    this.#publishNext();
  }

  changePending(at: number): void {
    const window = this.#window;
    if (window === undefined) return;
    window.announcedAt = Math.max(window.announcedAt ?? at, Math.min(at, this.#options.clock.now()));
  }

  flush(): void {
    this.#cancelTimers();
    this.#urgent.clear();
    this.#settling.clear();
    const now = this.#options.clock.now();
    this.#window = { ...windowAt(now), due: true };
    this.#publishNext();
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancelTimers();
  }

  #configurationChanged(at: number): void {
    const window = this.#window;
    if (window === undefined) {
      this.#window = windowAt(at);
      this.#arm(this.#window);
      return;
    }
    window.lastChangeAt = Math.max(window.lastChangeAt, at);
    if (window.awaited === undefined) return;
    window.awaited = undefined;
    this.#timer?.cancel();
    this.#arm(window);
  }

  /** Changes that were announced until `seenAt` have been reported. */
  #reported(seenAt: number): void {
    const window = this.#window;
    if (window?.announcedAt === undefined || !Number.isFinite(seenAt)) return;
    if (window.announcedAt <= seenAt) window.announcedAt = undefined;
    if (window.awaited === undefined || window.awaited > seenAt) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#options.hooks.onQuiesce();
    window.due = true;
  }

  #cancelTimers(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#cancelEndpoints();
  }

  #cancelEndpoints(): void {
    this.#endpointTimer?.cancel();
    this.#endpointTimer = undefined;
    this.#endpointsDue = false;
  }

  /** When the wait of a window ends if nothing more changes. */
  #endOf({ openedAt, lastChangeAt }: Window): number {
    const { afterMs, maxMs } = this.#options;
    return Math.min(lastChangeAt + afterMs, openedAt + maxMs);
  }

  #arm(window: Window): void {
    this.#setTimer(window, this.#endOf(window));
  }

  #setTimer(window: Window, at: number): void {
    const { clock } = this.#options;
    const now = clock.now();
    window.timerAt = Math.max(at, now);
    this.#timer = clock.setTimer(window.timerAt - now, () => this.#onTimer());
  }

  #onTimer(): void {
    this.#timer = undefined;
    const window = this.#window;
    if (window === undefined || window.due) return;
    const { afterMs, maxMs, clock, hooks } = this.#options;
    const now = clock.now();
    const isOver = now - window.openedAt >= maxMs;
    if (!isOver && now < this.#endOf(window)) {
      hooks.onTimerReset();
      this.#arm(window);
    } else if (now > window.timerAt + LATE_MS && window.rechecked !== window.timerAt) {
      const { timerAt } = window;
      this.#setTimer(window, now);
      window.rechecked = timerAt;
      window.timerAt = timerAt;
    } else if (!isOver && this.#isAnnounced(window, now)) {
      window.awaited = window.announcedAt;
      hooks.onTimerReset();
      this.#setTimer(window, Math.min((window.awaited ?? now) + afterMs, window.openedAt + maxMs));
    } else {
      if (now - window.lastChangeAt >= afterMs) hooks.onQuiesce();
      else hooks.onMaxTime();
      window.due = true;
      this.#publishNext();
    }
  }

  /**
   * Whether an announced change has to be waited for. One that was announced while an earlier one was waited for only
   * counts in an overloaded process.
   */
  #isAnnounced({ announcedAt, awaited, rechecked, timerAt }: Window, now: number): boolean {
    if (announcedAt === undefined || announcedAt + this.#options.afterMs <= now) return false;
    return awaited === undefined || (announcedAt > awaited && rechecked === timerAt);
  }

  /** When the next endpoints may be published. */
  #endpointsAt(): number {
    const end = this.#settling.firstEnd;
    const { at, busyMs } = this.#lastEndpoints;
    const paced = Math.max(end, at + pause(this.#options.busyMs() - busyMs));
    // Configuration that is published soon takes them along: one push instead of two.
    const window = this.#window === undefined ? Number.NEGATIVE_INFINITY : this.#endOf(this.#window);
    return window >= paced && window <= end + this.#options.afterMs / 2 ? window + AFTER_WINDOW_MS : paced;
  }

  #armEndpoints(): void {
    if (this.#settling.isEmpty || this.#endpointTimer !== undefined || this.#endpointsDue) return;
    this.#setEndpointTimer(this.#endpointsAt());
  }

  /** @param isLast whether the wait ends when the timer fires, however late */
  #setEndpointTimer(at: number, isLast = false): void {
    const { clock } = this.#options;
    const now = clock.now();
    const due = isLast ? Number.POSITIVE_INFINITY : Math.max(at, now);
    this.#endpointTimer = clock.setTimer(Math.max(0, at - now), () => this.#onEndpointTimer(due));
  }

  /** @param due when the timer should have fired; if it fires late, the wait takes one more turn of the event loop */
  #onEndpointTimer(due: number): void {
    this.#endpointTimer = undefined;
    if (this.#settling.isEmpty) return;
    const { clock, hooks } = this.#options;
    const now = clock.now();
    const at = this.#endpointsAt();
    if (at > now) {
      hooks.onTimerReset();
      this.#setEndpointTimer(at);
    } else if (now > due + LATE_MS) this.#setEndpointTimer(now, true);
    else {
      this.#endpointsDue = true;
      this.#publishNext();
    }
  }

  /** Publishes changes whose wait is over; called when a wait or a publish has ended. */
  #publishNext(): void {
    if (this.#publishing || this.#stopped.signal.aborted) return;
    if (this.#window?.due === true) {
      this.#window = undefined;
      // Takes everything pending, including endpoints: a flood of endpoint changes cannot delay the window.
      this.#urgent.clear();
      this.#settling.clear();
      this.#cancelEndpoints();
      this.#publish('all');
    } else if (this.#urgent.size > 0) {
      const keys = new Set(this.#urgent);
      this.#urgent.clear();
      this.#publish(keys);
    } else if (this.#endpointsDue) this.#publishEndpoints();
  }

  #publishEndpoints(): void {
    const { clock, busyMs, hooks } = this.#options;
    const at = clock.now();
    this.#endpointsDue = false;
    this.#lastEndpoints = { at, busyMs: busyMs() };
    const { keys, restless } = this.#settling.take(at);
    this.#armEndpoints();
    if (keys.size === 0) return;
    if (restless) hooks.onMaxTime();
    else hooks.onQuiesce();
    this.#publish(keys);
  }

  #publish(keys: ReadonlySet<ResourceKey> | 'all'): void {
    this.#publishing = true;
    const { publish, hooks } = this.#options;
    Promise.try(publish, keys, this.#stopped.signal)
      .catch((error: unknown) => hooks.onError(error))
      .finally(() => {
        this.#publishing = false;
        this.#publishNext();
      });
  }
}
