/** Ends the parts of a program in the reverse order of their start. */
import { CtlError, oneLineOf } from '../errors.ts';
import type { Log } from '../log.ts';

/** A part that was started. */
export interface Part {
  close(): Promise<void> | void;
}

/** Ends a part. */
export type Closer = Part['close'];

/** Ends parts, the most recently started first. */
export class Closers {
  readonly #closers: Closer[] = [];
  readonly #log: Pick<Log, 'error'>;
  readonly #closing = new AbortController();

  /** @param log for the errors of parts that cannot be ended */
  constructor(log: Pick<Log, 'error'>) {
    this.#log = log;
  }

  /** Aborts when the closing begins, before the first part is ended. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /**
   * Adds a part that was started. If closing has begun, because the program is stopped during its start, the part is
   * ended at once.
   * @throws CtlError unavailable if closing has begun: no more parts may be started
   */
  add(closer: Closer): void {
    if (!this.closing.aborted) {
      this.#closers.push(closer);
      return;
    }
    void this.#end(closer);
    throw new CtlError('unavailable', 'the program is being stopped');
  }

  /** Adds a part like {@link add}, and returns it. */
  use<P extends Part>(part: P): P {
    this.add(() => part.close());
    return part;
  }

  /** Ends all parts. A part that cannot be ended is logged, and the others are still ended. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const closer of this.#closers.splice(0).reverse()) await this.#end(closer);
  }

  async #end(closer: Closer): Promise<void> {
    try {
      await closer();
    } catch (error) {
      this.#log.error(`a part of the program could not be stopped: ${oneLineOf(error)}`);
    }
  }
}

/**
 * Starts a part that consists of several others.
 * @param start adds each of them; when it rejects, those that it has added are ended
 */
export async function startParts<T extends object>(
  log: Pick<Log, 'error'>,
  start: (closers: Closers) => Promise<T>,
): Promise<T & { close(): Promise<void> }> {
  const closers = new Closers(log);
  const close = (): Promise<void> => closers.close();
  try {
    return { ...(await start(closers)), close };
  } catch (error) {
    await close();
    throw error;
  }
}
