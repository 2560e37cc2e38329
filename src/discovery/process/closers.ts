/** How the parts of a program are ended: in the order opposite to that of their start. */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { getScope } from '../../logging/index.ts';

/** Ends a part. */
export type Closer = () => Promise<void> | void;

/** Ends parts, the last that was started first. */
export class Closers {
  readonly #parts: Closer[] = [];
  readonly #failed: (line: string) => void;
  #closed = false;

  /** @param failed logs a part that cannot be ended */
  constructor(failed = (line: string): void => getScope('default').error(line)) {
    this.#failed = failed;
  }

  /**
   * Adds a part that was started. When the closing has begun, because the program is stopped during its start, the part
   * is ended at once.
   * @throws CtlError unavailable when the closing has begun: nothing more is to be started
   */
  add(part: Closer): void {
    if (!this.#closed) {
      this.#parts.push(part);
      return;
    }
    void this.#end(part);
    throw new CtlError('unavailable', 'the program is being stopped');
  }

  /** Ends all parts. A part that cannot be ended is logged, and the others are ended all the same. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const part of this.#parts.splice(0).reverse()) await this.#end(part);
  }

  async #end(part: Closer): Promise<void> {
    try {
      await part();
    } catch (error) {
      this.#failed(`a part of the program could not be ended: ${oneLineOf(error)}`);
    }
  }
}
