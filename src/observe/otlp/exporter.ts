/**
 * Exports metrics and traces of pushes to an OpenTelemetry receiver, by timers: what pushes cost does not change, and
 * nothing waits for the receiver.
 */
import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../../core/clock.ts';
import { messageOf } from '../../core/errors.ts';
import type { CompletedPush } from '../recent/index.ts';
import { type Family, metricsJson, tracesJson } from './json.ts';
import type { OtlpOptions } from './options.ts';
import { Sender, type SenderOptions } from './sender.ts';

export type Signal = 'metrics' | 'traces';

export interface OtlpSource {
  /** The metrics now. */
  readonly families: () => Promise<readonly Family[]>;
  /** Complete pushes after the one with this number, the oldest first. */
  readonly pushes: (since: number) => readonly CompletedPush[];
}

export interface OtlpHooks {
  readonly onResult: (signal: Signal, result: 'sent' | 'dropped', items: number) => void;
  readonly onState: (signal: Signal, problem: string | undefined) => void;
}

/** Pushes in one body, which then has at most some hundred kilobytes. */
const PUSHES_IN_BODY = 50;

export class OtlpExporter {
  readonly #options: OtlpOptions;
  readonly #source: OtlpSource;
  readonly #hooks: OtlpHooks;
  readonly #clock: Clock;
  readonly #wall: () => number;
  readonly #start: number;
  readonly #senders: Sender[] = [];
  readonly #timers = new Map<Signal, Timer>();
  #closed = false;
  #lastPush = 0;

  /** @param wall Unix ms */
  constructor(options: OtlpOptions, source: OtlpSource, hooks: OtlpHooks, clock: Clock, wall: () => number) {
    this.#options = options;
    this.#source = source;
    this.#hooks = hooks;
    this.#clock = clock;
    this.#wall = wall;
    this.#start = wall();
    const { metrics, traces, metricIntervalMs, traceDelayMs, maxQueuedSpans } = options;
    if (metrics !== undefined) {
      // A body replaces an older one that waits: it has newer values of the same series.
      const sender = this.#sender('metrics', metrics, 1);
      this.#repeat('metrics', metricIntervalMs, () => this.#exportMetrics(sender));
    }
    if (traces !== undefined) {
      const sender = this.#sender('traces', traces, maxQueuedSpans);
      this.#repeat('traces', traceDelayMs, () => this.#exportTraces(sender));
    }
  }

  /** What waits is dropped. */
  close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers.values()) timer.cancel();
    for (const sender of this.#senders) sender.close();
    return Promise.resolve();
  }

  #sender(signal: Signal, url: URL, maxQueued: number): Sender {
    const { headers, timeoutMs } = this.#options;
    const options: SenderOptions = {
      url,
      headers,
      timeoutMs,
      maxQueued,
      clock: this.#clock,
      random: Math.random,
      onResult: (result, items) => this.#hooks.onResult(signal, result, items),
      onState: (problem) => this.#hooks.onState(signal, problem),
    };
    const sender = new Sender(options);
    this.#senders.push(sender);
    return sender;
  }

  #repeat(signal: Signal, ms: number, run: () => void | Promise<void>): void {
    const runSafely = async (): Promise<void> => {
      try {
        await run();
      } catch (error) {
        this.#hooks.onState(signal, messageOf(error));
      }
    };
    const next = (): void => {
      if (this.#closed) return;
      this.#timers.set(
        signal,
        this.#clock.setTimer(ms, () => void runSafely().then(next)),
      );
    };
    next();
  }

  async #exportMetrics(sender: Sender): Promise<void> {
    const families = await this.#source.families();
    const { body, points } = metricsJson(families, this.#options.resource, { start: this.#start, now: this.#wall() });
    sender.send({ body, items: points });
  }

  #exportTraces(sender: Sender): void {
    const pushes = this.#source.pushes(this.#lastPush);
    const [first, last] = [pushes[0], pushes.at(-1)];
    if (first === undefined || last === undefined) return;
    // The history keeps a bounded number of pushes.
    const missed = first.number - this.#lastPush - 1;
    if (missed > 0) this.#hooks.onResult('traces', 'dropped', missed);
    this.#lastPush = last.number;
    for (let at = 0; at < pushes.length; at += PUSHES_IN_BODY) {
      const some = pushes.slice(at, at + PUSHES_IN_BODY);
      const id = (bytes: number): string => randomBytes(bytes).toString('hex');
      const { body, spans } = tracesJson(some, this.#options.resource, id);
      sender.send({ body, items: spans });
    }
  }
}
