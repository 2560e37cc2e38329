/**
 * A rate limiter for log lines that callers cause. A refused caller may try again thousands of times a second, which
 * must neither fill the disk nor hide the lines about other callers. So a window has a small number of lines for each
 * caller, and a larger number for all callers. The other lines are counted in one line at the end of the window.
 */

/** A window begins with its first message and ends after this time. */
export const LOG_WINDOW_MS = 10_000;

/** Lines of one key in a window: enough to see that the problem repeats. */
const MAX_LINES_PER_KEY = 5;

/** Lines of all keys in a window, and so the largest number of remembered keys. */
const MAX_LINES = 50;

/**
 * @param key identifies the lines that are limited together, such as those of one caller; it is not logged
 */
export type LimitedLog = (key: string, message: string) => void;

export interface LogLimitOptions {
  readonly write: (message: string) => void;
  /** Runs once after `ms`. */
  readonly later: (ms: number, run: () => void) => void;
}

export function limitLog({ write, later }: LogLimitOptions): LimitedLog {
  const written = new Map<string, number>();
  let lines = 0;
  let suppressed = 0;
  let latest = '';

  const endWindow = (): void => {
    const [count, message] = [suppressed, latest];
    written.clear();
    lines = 0;
    suppressed = 0;
    latest = '';
    if (count === 1) write(message);
    else if (count > 1) write(`… and ${count} more in the last ${LOG_WINDOW_MS / 1000} s, the latest: ${message}`);
  };

  return (key, message) => {
    if (lines === 0) later(LOG_WINDOW_MS, endWindow);
    const ofKey = written.get(key) ?? 0;
    if (ofKey >= MAX_LINES_PER_KEY || lines >= MAX_LINES) {
      suppressed++;
      latest = message;
      return;
    }
    lines++;
    written.set(key, ofKey + 1);
    write(message);
  };
}
