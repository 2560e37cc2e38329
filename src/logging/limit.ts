/**
 * Keeps what callers do wrong from filling the log. Who is refused tries again, in the worst case thousands of times a
 * second, and the line that tells of somebody else must not drown in that, nor must the disk fill up. So of each caller
 * some lines are written, of all together some more, and the rest is counted and told of in one line at the end of the
 * window.
 */

/** A window begins with its first message and ends after this time. */
export const LOG_WINDOW_MS = 10_000;

/** Lines of one key in a window: enough to see that it happens again, and with what. */
const PER_KEY = 5;

/** Lines of all keys in a window; also how many keys are remembered. */
const IN_ALL = 50;

/** @param key what counts as the same, such as the caller; it does not appear in the log */
export type LimitedLog = (key: string, message: string) => void;

export interface LogLimitOptions {
  readonly write: (message: string) => void;
  /** Runs once after `ms`. */
  readonly later: (ms: number, run: () => void) => void;
}

export function limitLog({ write, later }: LogLimitOptions): LimitedLog {
  const written = new Map<string, number>();
  let inAll = 0;
  let more = 0;
  let latest = '';

  const endWindow = (): void => {
    const [count, message] = [more, latest];
    written.clear();
    inAll = 0;
    more = 0;
    latest = '';
    if (count === 1) write(message);
    else if (count > 1) write(`… and ${count} more in the last ${LOG_WINDOW_MS / 1000} s, the latest: ${message}`);
  };

  return (key, message) => {
    if (inAll === 0) later(LOG_WINDOW_MS, endWindow);
    const ofKey = written.get(key) ?? 0;
    if (ofKey >= PER_KEY || inAll >= IN_ALL) {
      more++;
      latest = message;
      return;
    }
    inAll++;
    written.set(key, ofKey + 1);
    write(message);
  };
}
