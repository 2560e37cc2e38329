/** How long `/ready` takes, as a kubelet sees it: one request after the other on new connections. */
import { setTimeout as delay } from 'node:timers/promises';
import { request } from '../../test/harness/http.ts';
import { monotonicMs } from '../world/clock.ts';

const PAUSE_MS = 50;
/** Longer than a probe of any orchestrator waits. */
const TIMEOUT_MS = 120_000;

export class ReadyProbe {
  readonly #port: number;
  readonly #running: Promise<void>;
  #ended = false;
  #maxMs = 0;
  #failed = 0;

  constructor(port: number) {
    this.#port = port;
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    while (!this.#ended) {
      const started = monotonicMs();
      await request({ port: this.#port, path: '/ready', timeoutMs: TIMEOUT_MS }).catch(() => this.#failed++);
      this.#maxMs = Math.max(this.#maxMs, monotonicMs() - started);
      await delay(PAUSE_MS);
    }
  }

  /** The longest request, ms, with the one that is under way, and how many got no answer. */
  async end(): Promise<{ readonly maxMs: number; readonly failed: number }> {
    this.#ended = true;
    await this.#running;
    return { maxMs: this.#maxMs, failed: this.#failed };
  }
}
