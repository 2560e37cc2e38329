/**
 * Keeps one Envoy running: when it dies it is restarted after a growing delay, until there are too many failures in a
 * row. If Envoy exits with code 0, it was asked to (through its admin interface), so the agent exits as well.
 */
import { backoff } from '../../core/backoff.ts';
import type { Logger } from '../../logging/index.ts';
import { type EnvoyLogLine, logEnvoyLine, parseLogLine } from './log-line.ts';
import type { EnvoyExit, EnvoyProcess } from './process.ts';

/** The delay before the first restart, doubled with each failure in a row up to the maximum. */
const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 10_000;
/** With the delays above, the agent gives up after 45 s. */
const MAX_FAILURES = 10;
/** An Envoy that has run this long counts as started: the count of failures restarts. */
const STABLE_MS = 60_000;

/** Why Envoy is not restarted. */
export type EnvoyEnd =
  | { readonly kind: 'quit' }
  | { readonly kind: 'stopped' }
  /** Envoy rejects its bootstrap; a restart would not help. */
  | { readonly kind: 'rejected'; readonly reason: string }
  | { readonly kind: 'failed'; readonly failures: number; readonly reason: string };

export interface Supervisor {
  /**
   * Settles when Envoy has ended and is not started again. Rejects with a CtlError when the program cannot be started.
   */
  readonly ended: Promise<EnvoyEnd>;
  /** Process id of the running Envoy. */
  pid(): number | undefined;
  /** Stops restarts; the running Envoy continues. `ended` settles when no Envoy is running. */
  retire(): void;
  /** Sends a signal to the running Envoy, if there is one. */
  signal(signal: 'SIGTERM' | 'SIGKILL'): void;
}

export interface SupervisorDeps {
  /** Starts an Envoy; calls `onLine` for each line of its log. */
  readonly start: (onLine: (line: string) => void) => Promise<EnvoyProcess>;
  /** Milliseconds on a clock that only goes forward. */
  readonly now: () => number;
  /** Resolves after the given time, or earlier if the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  /** 0 to 1. */
  readonly random: () => number;
  readonly log: Logger;
  /** Receives lines of Envoy's stderr that are not of its log, such as access logs. */
  readonly passOn: (line: string) => void;
  /** Receives the lines of Envoy's log as well. */
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
      // Retired during the start: this Envoy has no work yet, so it need not drain.
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
      // With jitter, so that Envoys on one host that crashed together are not all restarted at once.
      const wait = backoff(failures, FIRST_DELAY_MS, MAX_DELAY_MS, deps.random);
      deps.log.warn('Envoy has exited, restarting it', { reason, failures, inMs: Math.round(wait) });
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
  see(text: string): void;
  /** Whether a line only repeats the refusal: Envoy also prints its plain text when it exits. */
  repeats(line: string): boolean;
  /** Why Envoy rejects its bootstrap. */
  readonly reason: string | undefined;
  /** The message about an address in use, which is not a refusal: the address may become free. */
  readonly busy: string | undefined;
}

/** Finds the log line with which Envoy rejects its bootstrap. */
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

/** The supervisor of an agent that does not run Envoy (DISABLE_ENVOY): it settles when Envoy would be signalled. */
export function withoutEnvoy(): Supervisor {
  const ended = Promise.withResolvers<EnvoyEnd>();
  return {
    ended: ended.promise,
    pid: () => undefined,
    retire: () => undefined,
    // Envoy would serve until this signal, so the agent does as well: applications are still shutting down.
    signal: () => ended.resolve({ kind: 'stopped' }),
  };
}
