/**
 * The running handlers of configurations: a handler whose configuration stays equal is used again, with its counters
 * and connections; another one is closed after the last call that began with it.
 */
import { oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { RunningHandler } from '../adapters/types.ts';
import type { Handler } from '../types.ts';
import type { TransitionStats } from './stats.ts';

/** A handler that is shared by the configurations that it is part of. */
interface Shared {
  readonly handler: Handler;
  readonly running: RunningHandler;
  users: number;
}

/** The handlers of one configuration. */
export class HandlerSet {
  readonly #handlers: ReadonlyMap<string, Shared>;
  readonly #failures: ReadonlyMap<string, string>;
  readonly #ended: () => void;
  /** Calls in progress, and one for being in force. */
  #users = 1;

  constructor(handlers: ReadonlyMap<string, Shared>, failures: ReadonlyMap<string, string>, ended: () => void) {
    this.#handlers = handlers;
    this.#failures = failures;
    this.#ended = ended;
  }

  /** Undefined when the handler could not be started. */
  get(id: string): RunningHandler | undefined {
    return this.#handlers.get(id)?.running;
  }

  /** Why a handler could not be started. */
  failureOf(id: string): string | undefined {
    return this.#failures.get(id);
  }

  get shared(): ReadonlyMap<string, Shared> {
    return this.#handlers;
  }

  enter(): void {
    this.#users++;
  }

  /** Ends a call, or the time in force. */
  leave(): void {
    this.#users--;
    if (this.#users === 0) this.#ended();
  }
}

export interface HandlerTableOptions {
  readonly open: (handler: Handler) => RunningHandler;
  readonly log: Log;
  /** Called when a handler was closed; `failed` when closing it failed. */
  readonly closed: (failed: boolean) => void;
}

export class HandlerTable {
  readonly #options: HandlerTableOptions;
  readonly #running = new Set<Shared>();
  #current: HandlerSet | undefined;

  constructor(options: HandlerTableOptions) {
    this.#options = options;
  }

  get current(): HandlerSet | undefined {
    return this.#current;
  }

  /** Background loops, and calls in progress, of all handlers. */
  activity(): { readonly daemons: number; readonly workers: number } {
    let [daemons, workers] = [0, 0];
    for (const { running } of this.#running) {
      daemons += running.daemons;
      workers += running.workers;
    }
    return { daemons, workers };
  }

  /** Starts the handlers of a configuration, which is in force afterwards. */
  replace(handlers: Iterable<Handler>): Pick<TransitionStats, 'opened' | 'reused' | 'openFailures'> {
    const before = this.#current;
    const next = new Map<string, Shared>();
    const failures = new Map<string, string>();
    let [opened, reused] = [0, 0];
    for (const handler of handlers) {
      const known = before?.shared.get(handler.id);
      if (known !== undefined && known.handler.fingerprint === handler.fingerprint) {
        known.users++;
        reused++;
        next.set(handler.id, known);
        continue;
      }
      try {
        const shared = { handler, running: this.#options.open(handler), users: 1 };
        this.#running.add(shared);
        next.set(handler.id, shared);
        opened++;
      } catch (error) {
        failures.set(handler.id, oneLineOf(error));
        this.#options.log.error(`handler ${handler.id} cannot be started: ${oneLineOf(error)}`);
      }
    }
    this.#current = new HandlerSet(next, failures, () => {
      for (const shared of next.values()) this.#release(shared);
    });
    before?.leave();
    return { opened, reused, openFailures: failures.size };
  }

  /** Closes all handlers that no call uses. */
  close(): void {
    this.#current?.leave();
    this.#current = undefined;
  }

  #release(shared: Shared): void {
    shared.users--;
    if (shared.users > 0) return;
    this.#running.delete(shared);
    const { handler, running } = shared;
    const failed = (error: unknown): void => {
      this.#options.log.error(`handler ${handler.id} cannot be closed: ${oneLineOf(error)}`);
      this.#options.closed(true);
    };
    try {
      Promise.resolve(running.close()).then(() => this.#options.closed(false), failed);
    } catch (error) {
      failed(error);
    }
  }
}
