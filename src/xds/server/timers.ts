/** Timers for moments that may be later than a timer can wait. */

/** Longest delay of a timer. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Calls `run` at a time of the wall clock, which may be later than the maximum of a timer; undefined: never. */
export function at(moment: number | undefined, now: () => number, run: () => void): { cancel(): void } {
  let timer: NodeJS.Timeout | undefined;
  const wait = (): void => {
    if (moment === undefined) return;
    const left = moment - now();
    timer = setTimeout(left <= 0 ? run : wait, Math.min(Math.max(left, 0), MAX_TIMER_MS)).unref();
  };
  wait();
  return { cancel: () => clearTimeout(timer) };
}
