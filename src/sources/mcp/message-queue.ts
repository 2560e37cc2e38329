/**
 * Processes the messages of one stream in order, a large one in slices, so that pushes and probes go on meanwhile.
 * Reading pauses while a message is processed. Short messages are processed at once.
 */
import type { Slices } from '../../core/slices.ts';

/** Maximum duration of a slice, ms: the delay that other work may see. */
const SLICE_MS = 10;

export interface MessageQueueOptions<T> {
  /** The next message is processed after the promise has resolved. */
  readonly process: (message: Buffer) => Slices<T | Promise<T>>;
  readonly done: (result: T) => void;
  /** Processing has failed: no other message is processed. */
  readonly failed: (error: unknown) => void;
  /** Stops or continues to read. */
  readonly read: (enabled: boolean) => void;
  /** Monotonic ms. */
  readonly now: () => number;
}

export class MessageQueue<T> {
  readonly #options: MessageQueueOptions<T>;
  readonly #waiting: Buffer[] = [];
  #work: Slices<T | Promise<T>> | undefined;
  /** What came of the message in work, after a promise. */
  #result: { readonly value: T } | undefined;
  #whenIdle: (() => void) | undefined;
  #closed = false;

  constructor(options: MessageQueueOptions<T>) {
    this.#options = options;
  }

  add(message: Buffer): void {
    if (this.#closed) return;
    this.#waiting.push(message);
    if (this.#work === undefined) this.#run();
  }

  /** Drops the messages that wait. The one that is processed is completed, because a part of it has taken effect. */
  close(whenIdle: () => void = () => {}): void {
    this.#closed = true;
    this.#waiting.length = 0;
    if (this.#work === undefined) whenIdle();
    else this.#whenIdle = whenIdle;
  }

  #run(): void {
    const { process, done, read, now } = this.#options;
    const until = now() + SLICE_MS;
    try {
      for (;;) {
        if (this.#work === undefined) {
          const message = this.#waiting.shift();
          if (message === undefined) break;
          this.#work = process(message);
        }
        const step = this.#result === undefined ? this.#work.next() : { done: true as const, ...this.#result };
        this.#result = undefined;
        if (step.done === true && step.value instanceof Promise) {
          read(false);
          this.#await(step.value);
          return;
        }
        if (step.done === true) {
          this.#work = undefined;
          // No promise: that was handled above.
          done(step.value as T);
        } else if (now() >= until) {
          read(false);
          setImmediate(() => this.#run());
          return;
        }
      }
      read(true);
    } catch (error) {
      this.#fail(error);
    }
    this.#becomeIdle();
  }

  #await(result: Promise<T>): void {
    result.then(
      (value) => {
        this.#result = { value };
        this.#run();
      },
      (error: unknown) => {
        this.#fail(error);
        this.#becomeIdle();
      },
    );
  }

  #fail(error: unknown): void {
    this.#work = undefined;
    this.#waiting.length = 0;
    this.#closed = true;
    this.#options.failed(error);
  }

  #becomeIdle(): void {
    this.#whenIdle?.();
    this.#whenIdle = undefined;
  }
}
