/** A debouncer on a fake clock, and what it has published. For tests. */
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { createDebouncer, type DebounceHooks } from '../debounce/debounce.ts';

/** A clock that is moved to points in time. */
export function timeline() {
  const clock = fakeClock();
  return {
    clock,
    advanceTo: (time: number) => clock.advance(time - clock.now()),
    hangTo: (time: number) => clock.hang(time - clock.now()),
  };
}

export interface Published {
  readonly at: number;
  readonly keys: readonly string[] | 'all';
}

export function setUp(
  options: { edsDebounce?: boolean; publishMs?: number; afterMs?: number; maxMs?: number; busyMs?: number } = {},
) {
  const { clock, advanceTo, hangTo } = timeline();
  const published: Published[] = [];
  const counts = { change: 0, reset: 0, quiesce: 0, max: 0, error: 0, concurrent: 0, running: 0 };
  let busyMs = 0;
  const hooks: DebounceHooks = {
    onChange: () => void counts.change++,
    onTimerReset: () => void counts.reset++,
    onQuiesce: () => void counts.quiesce++,
    onMaxTime: () => void counts.max++,
    onError: () => void counts.error++,
  };
  const debouncer = createDebouncer({
    afterMs: options.afterMs ?? 100,
    maxMs: options.maxMs ?? 1000,
    edsDebounce: options.edsDebounce ?? true,
    clock,
    hooks,
    endpointsOf: (key) => (key.startsWith('Pod/') ? key : /^Endpoint(?:Slice|s)\/(.+?)(?:-\d+)?$/.exec(key)?.[1]),
    busyMs: () => busyMs,
    publish: async (keys) => {
      busyMs += options.busyMs ?? 0;
      counts.running++;
      counts.concurrent = Math.max(counts.concurrent, counts.running);
      published.push({ at: clock.now(), keys: keys === 'all' ? keys : [...keys] });
      const ms = options.publishMs ?? 0;
      if (ms > 0) await new Promise<void>((resolve) => clock.setTimer(ms, resolve));
      counts.running--;
    },
  });
  const change = (...keys: string[]) => debouncer.changed(new Set(keys));
  return { debouncer, change, advanceTo, hangTo, clock, published, counts };
}
