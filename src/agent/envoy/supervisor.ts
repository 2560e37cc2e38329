/**
 * Keeps one Envoy running: when it dies it is started again after a growing wait, and given up after too many failures
 * in a row. An Envoy that ends with code 0 was told to quit (by its admin interface), and that is the agent's end as
 * well.
 */
import { backoff } from '../../core/backoff.ts';
import type { Logger } from '../../logging/index.ts';
import { type EnvoyLogLine, logEnvoyLine, parseLogLine } from './log-line.ts';
import type { EnvoyExit, EnvoyProcess } from './process.ts';

/** First wait before a new start, doubled with each failure in a row up to the longest. */
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;
/** With the waits above, an Envoy that cannot run is given up after three quarters of a minute. */
const MAX_FAILURES = 10;
/** An Envoy that has run this long did start: its death begins a new count. */
const STABLE_MS = 60_000;

/** Why Envoy is not run any more. */
export type EnvoyEnd =
  | { readonly kind: 'quit' }
  | { readonly kind: 'stopped' }
  /** It refuses its bootstrap; trying again would not help. */
  | { readonly kind: 'rejected'; readonly reason: string }
  | { readonly kind: 'failed'; readonly failures: number; readonly reason: string };

export interface Supervisor {
  /**
   * Settles when no Envoy runs and none will be started. Rejects with a CtlError when the program cannot be started.
   */
  readonly ended: Promise<EnvoyEnd>;
  /** Process id of the Envoy that runs now. */
  pid(): number | undefined;
  /** From now on no Envoy is started; the running one goes on. `ended` settles when there is none. */
  retire(): void;
  /** Sends a signal to the running Envoy, if there is one. */
  signal(signal: 'SIGTERM' | 'SIGKILL'): void;
}

export interface SupervisorDeps {
  /** Starts an Envoy; calls `onLine` for each line of its log. */
  readonly start: (onLine: (line: string) => void) => Promise<EnvoyProcess>;
  /** Milliseconds on a clock that only goes forward. */
  readonly now: () => number;
  /** Resolves after the time or, early, when the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  /** 0 to 1. */
  readonly random: () => number;
  readonly log: Logger;
  /** Takes a line of Envoy's stderr that is none of its log: what an access log to stderr wrote, goes on as it is. */
  readonly passOn: (line: string) => void;
  /** Takes what Envoy logs, besides the log. */
  readonly onLog?: (line: EnvoyLogLine) => void;
  /** Called when an Envoy runs: 1 for the first one. */
  readonly onStart: (run: number) => void;
}

export function superviseEnvoy(deps: SupervisorDeps): Supervisor {
  const retired = new AbortController();
  let current: EnvoyProcess | undefined;
  const run = async (): Promise<EnvoyEnd> => {
    let failures = 0;
    for (let count = 1; ; count++) {
      const refusal = rejectionWatch();
      const startedAt = deps.now();
      current = await deps.start((line) => {
        const parsed = parseLogLine(line);
        if (parsed === undefined) {
          if (!refusal.repeats(line)) deps.passOn(line);
          return;
        }
        refusal.see(parsed.text);
        deps.onLog?.(parsed);
        logEnvoyLine(deps.log, parsed);
      });
      // Retired while it was being started: it was never told to drain, and has no work yet.
      if (retired.signal.aborted) current.kill('SIGKILL');
      else deps.onStart(count);
      const exit = await current.exited;
      current = undefined;
      if (retired.signal.aborted) return { kind: 'stopped' };
      if (exit.code === 0) return { kind: 'quit' };
      const reason = [exitText(exit), ...(refusal.busy === undefined ? [] : [refusal.busy])].join(': ');
      if (refusal.reason !== undefined) return { kind: 'rejected', reason: refusal.reason };
      failures = deps.now() - startedAt >= STABLE_MS ? 1 : failures + 1;
      if (failures > MAX_FAILURES) return { kind: 'failed', failures, reason };
      // With jitter: the Envoys of a host that died at one moment are not started at one moment.
      const wait = backoff(failures, FIRST_WAIT_MS, LONGEST_WAIT_MS, deps.random);
      deps.log.warn('Envoy has ended, it is started again', { reason, failures, inMs: Math.round(wait) });
      await deps.sleep(wait, retired.signal);
      if (retired.signal.aborted) return { kind: 'stopped' };
    }
  };
  return {
    ended: run(),
    pid: () => current?.pid,
    retire: () => retired.abort(),
    signal: (signal) => current?.kill(signal),
  };
}

function exitText({ code, signal }: EnvoyExit): string {
  return signal === null ? `exit code ${code ?? 'unknown'}` : `signal ${signal}`;
}

interface RejectionWatch {
  /** Takes the text of a log line. */
  see(text: string): void;
  /** Whether a line only says once more what was seen: Envoy ends with the bare words of its refusal. */
  repeats(line: string): boolean;
  /** Why Envoy refuses its bootstrap. */
  readonly reason: string | undefined;
  /** An address that is in use is no refusal: the one who has it may go away. */
  readonly busy: string | undefined;
}

/** Finds the line by which Envoy refuses its bootstrap. */
function rejectionWatch(): RejectionWatch {
  let words: string | undefined;
  const busy = () => words !== undefined && /cannot bind|Address already in use/i.test(words);
  return {
    see(text) {
      const [, quoted, plain] =
        /^error (?:`(.*)` )?initializing config(?:uration)? '[^']*'(?:: (.*))?$/s.exec(text) ?? [];
      words = oneLine(quoted ?? plain) ?? words;
    },
    repeats: (line) => words?.includes(oneLine(line) ?? '') ?? false,
    get reason() {
      return busy() ? undefined : words;
    },
    get busy() {
      return busy() ? words : undefined;
    },
  };
}

function oneLine(text: string | undefined): string | undefined {
  return text?.trim().replace(/\s+/g, ' ');
}
