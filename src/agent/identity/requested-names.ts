/**
 * The SDS names that Envoy has requested and that one source follows: a bounded number, each until no stream is
 * subscribed to it any longer.
 */
import type { Clock } from '../../core/clock.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { Refresh } from '../../core/scheduling/refresh.ts';
import type { SecretResource } from './sds-protocol.ts';

/** The interval of checks: certificates are replaced long before they expire, so a few seconds do not matter. */
const CHECK_MS = 5_000;
/**
 * A name is dropped after this many checks in which no stream was subscribed to it: an Envoy that reconnects requests
 * it again before.
 */
const MAX_UNWANTED_CHECKS = 2;

export interface RequestedName {
  readonly state: FailureLog;
  /** The last good version. */
  resource: SecretResource | undefined;
}

export interface RequestedNamesOptions<T extends RequestedName> {
  readonly max: number;
  /** The plural noun for the log, such as `Secrets`. */
  readonly what: string;
  readonly clock: Clock;
  readonly log: Log;
  /** What is stored for a name; undefined for names of other sources. */
  readonly entryOf: (name: string) => T | undefined;
  readonly added: (name: string, entry: T) => void;
  /** Called periodically, when unused names have been dropped. Resolves with true when a secret has changed. */
  readonly check: (entries: readonly (readonly [name: string, entry: T])[]) => Promise<boolean>;
  /** Called when a check has changed or dropped a secret. */
  readonly changed: () => void;
  /** Whether any stream is subscribed to a name. */
  readonly isWanted: (name: string) => boolean;
}

export class RequestedNames<T extends RequestedName> {
  readonly #options: RequestedNamesOptions<T>;
  readonly #entries = new Map<string, T>();
  readonly #unwantedChecks = new Map<string, number>();
  readonly #limitLog: FailureLog;
  readonly #checks: Refresh<void>;
  #isStarted = false;

  constructor(options: RequestedNamesOptions<T>) {
    const { what, clock, log } = options;
    this.#options = options;
    this.#limitLog = createFailureLog(log, `not all ${what} are followed`, `all ${what} are followed`);
    this.#checks = new Refresh({
      load: async (signal) => ({ value: await this.#check(signal), refreshMs: CHECK_MS }),
      clock,
      retryMs: () => CHECK_MS,
      onProblem: (error) => log.error(`${what} cannot be checked for changes: ${error.oneLine()}`),
    });
  }

  /** Starts to follow a name. False for names of other sources, and when there are too many. */
  follow(name: string): boolean {
    if (this.#entries.has(name)) return true;
    const { entryOf, added, max } = this.#options;
    const entry = entryOf(name);
    if (entry === undefined) return false;
    if (this.#entries.size >= max) {
      this.#limitLog.failed(`at most ${max} are followed`, { notFollowed: name });
      return false;
    }
    this.#limitLog.succeeded();
    this.#entries.set(name, entry);
    added(name, entry);
    if (!this.#isStarted) this.#checks.startWith({ value: undefined, refreshMs: CHECK_MS });
    this.#isStarted = true;
    return true;
  }

  all(): (readonly [name: string, entry: T])[] {
    return [...this.#entries];
  }

  /** The secrets that could be read. */
  current(): SecretResource[] {
    return [...this.#entries.values()].flatMap(({ resource }) => resource ?? []);
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  async #check(signal: AbortSignal): Promise<void> {
    const isLess = this.#dropUnwanted();
    const isNew = await this.#options.check(this.all());
    if ((isLess || isNew) && !signal.aborted) this.#options.changed();
  }

  /** Drops names that are no longer used, which would otherwise displace new ones. True when one of them was served. */
  #dropUnwanted(): boolean {
    let served = false;
    for (const [name, { resource }] of this.#entries) {
      const checks = this.#options.isWanted(name) ? 0 : (this.#unwantedChecks.get(name) ?? 0) + 1;
      this.#unwantedChecks.set(name, checks);
      if (checks < MAX_UNWANTED_CHECKS) continue;
      this.#entries.delete(name);
      this.#unwantedChecks.delete(name);
      served ||= resource !== undefined;
    }
    return served;
  }
}
