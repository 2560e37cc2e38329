/** The changes that a proxy has not acknowledged yet. */
import type { Push } from '../push.ts';

export class PendingChanges {
  /** The earliest event time, the newest version. */
  #push: Push | undefined;
  /**
   * Whether a response with pending changes was sent: convergence waits for its acknowledgement, even if a later push
   * sends nothing.
   */
  #isSent = false;
  #isReported = false;

  /** All of them; a new object after each {@link add}. */
  get push(): Push | undefined {
    return this.#push;
  }

  get isSent(): boolean {
    return this.#isSent;
  }

  /** @returns whether they are the first changes of the mesh among the pending ones: a new proxy is none */
  add(push: Push): boolean {
    const known = this.#push;
    const isFirst = !this.#isReported && [...push.reasons].some((reason) => reason !== 'proxy');
    if (isFirst) this.#isReported = true;
    const eventTime = Math.min(push.eventTime, known?.eventTime ?? push.eventTime);
    this.#push = known === undefined ? push : { ...push, eventTime, version: Math.max(push.version, known.version) };
    return isFirst;
  }

  /** A response was sent. */
  sent(): void {
    this.#isSent = this.#push !== undefined;
  }

  /** @returns whether changes of the mesh were among them */
  end(): boolean {
    const wasReported = this.#isReported;
    this.#push = undefined;
    this.#isSent = false;
    this.#isReported = false;
    return wasReported;
  }
}
