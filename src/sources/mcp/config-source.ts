/**
 * A source of documents that another control plane serves, over MCP or over xDS: one stream, opened anew with backoff.
 * While the stream is down, everything stays in force.
 */
import { backoff } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { CtlError, oneLineOf, toCtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Slices } from '../../core/slices.ts';
import { type ClientStream, openClientStream, type StreamClientOptions, type StreamTls } from '../../grpc/index.ts';
import { limitLog } from '../../logging/index.ts';
import { HealthLog } from '../health.ts';
import { applyInSlices, type Source, type SourceHealth, type SourceSink } from '../source.ts';
import { type Sending, UnappliedEvents } from '../unapplied-events.ts';
import { MessageQueue } from './message-queue.ts';
import type { ConfigProtocol, Received } from './protocol.ts';

export interface ConfigSourceOptions {
  readonly id: string;
  readonly cluster: string;
  readonly host: string;
  readonly port: number;
  readonly protocol: ConfigProtocol;
  readonly stream: StreamClientOptions;
  /** TLS of the connections; undefined: plain text. */
  readonly tls: FollowedTls | undefined;
  /** Called when a stream is opened that is not the first. */
  readonly onReconnect: () => void;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
  /** Opens streams; for tests. */
  readonly openStream?: typeof openClientStream;
}

/** TLS settings that change: certificates are renewed. */
export interface FollowedTls {
  /** The settings now. Rejects with CtlError when they cannot be read; that is tried again. */
  current(): Promise<StreamTls>;
  /** Calls `listener` after each change. Returns a function that stops this. */
  onChange(listener: () => void): () => void;
}

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;
/** The part of a delay that is random: all control planes lose a server at the same time. */
const JITTER = 0.5;

/**
 * The interval of pings for a server that ends connections because of pings, ms: servers of gRPC accept one in 5
 * minutes, unless they are configured otherwise. Source:
 * https://github.com/grpc/proposal/blob/master/A8-client-side-keepalive.md
 */
const RARE_PINGS_MS = 310_000;
/** The longest interval for a server that ends connections because of pings again, ms. */
const RAREST_PINGS_MS = 3_600_000;

/** After this time without an answer for a collection or type, the log names it, ms. */
const PATIENCE_MS = 10_000;
const MAX_NAMED = 5;

/** Responses that wait for a sink that delays them, at most; the next one waits before it is read. */
const MAX_DELAYED = 64;
/** Nothing is answered yet. */
const NOT_YET: Received = { group: undefined, events: [], replies: [] };

const CONSEQUENCE = 'its documents stay in force as they are';

export function createConfigSource(options: ConfigSourceOptions): Source {
  return new ConfigSource(options);
}

class ConfigSource implements Source {
  readonly id: string;
  readonly cluster: string;
  readonly #options: ConfigSourceOptions;
  readonly #first = Promise.withResolvers<void>();
  readonly #health: HealthLog;
  /** Groups that have never been answered: the source is synced when there are none. */
  readonly #waiting: Set<string>;
  /** Why the last response of a group was refused, by group. */
  readonly #refused = new Map<string, string>();
  readonly #unapplied = new UnappliedEvents();
  #sink: SourceSink | undefined;
  readonly #log: Pick<Log, 'warn' | 'info'>;
  #stream: ClientStream | undefined;
  /** The messages of the stream. */
  #queue: MessageQueue<Received> | undefined;
  #unfollow: (() => void) | undefined;
  #timer: Timer | undefined;
  #patience: Timer | undefined;
  /** Attempts since a stream has had an answer. */
  #failures = 0;
  #streams = 0;
  #keepaliveMs: number;
  /** Responses that wait for a sink that delays them. */
  #delayed = 0;
  /** Whether it has sent a document. */
  #hasSent = false;
  #isSynced = false;
  #closed = false;

  constructor(options: ConfigSourceOptions) {
    this.id = options.id;
    this.cluster = options.cluster;
    this.#options = options;
    this.#waiting = new Set(options.protocol.groups);
    this.#keepaliveMs = options.stream.keepaliveMs;
    const { id, log, clock } = options;
    // The server chooses a part of the reasons.
    const warn = limitLog({ write: (line) => log.warn(line), later: (ms, run) => void clock.setTimer(ms, run) });
    const info = limitLog({ write: (line) => log.info(line), later: (ms, run) => void clock.setTimer(ms, run) });
    this.#log = { warn: (line: string) => warn(id, line), info: (line: string) => info(id, line) };
    this.#health = new HealthLog(this.#log, clock.now);
  }

  get synced(): Promise<void> {
    return this.#first.promise;
  }

  start(sink: SourceSink): void {
    this.#sink = sink;
    this.#unfollow = this.#options.tls?.onChange(() => this.#renewed());
    this.#connect();
  }

  health(): SourceHealth {
    const health = this.#health.current;
    if (this.#waiting.size === 0) return health;
    // Without `since`: nothing of the source can be out of date yet.
    const reason = health.ok ? `${this.id} has not answered for ${this.#named()}` : health.reason;
    return { ok: false, reason };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#unfollow?.();
    for (const timer of [this.#timer, this.#patience]) timer?.cancel();
    this.#stream?.close();
    this.#queue?.close();
  }

  #connect(): void {
    const { tls } = this.#options;
    const opened = tls === undefined ? Promise.resolve(undefined) : tls.current();
    opened.then(
      (current) => this.#open(current),
      (error: unknown) => this.#lost(toCtlError(error)),
    );
  }

  #open(tls: StreamTls | undefined): void {
    if (this.#closed) return;
    const { host, port, protocol, stream, clock, onReconnect, openStream = openClientStream } = this.#options;
    // Not once it has ended, or another one is opened in its place.
    const current = (): ClientStream | undefined => (this.#stream === opened ? opened : undefined);
    const lost = (error: CtlError): void => {
      if (current() !== undefined) this.#ended(queue, error);
    };
    const queue = new MessageQueue<Received>({
      process: (bytes) => this.#receive(bytes, current),
      done: (received) => this.#take(received, current()),
      failed: (error) => {
        current()?.close();
        lost(error instanceof CtlError ? error : new CtlError('internal', oneLineOf(error), {}, error));
      },
      read: (enabled) => opened.read(enabled),
      now: clock.now,
    });
    const ofStream = { ...stream, keepaliveMs: this.#keepaliveMs };
    const opened = openStream({ host, port, tls, path: protocol.path }, ofStream, {
      opened: () => {
        if (this.#streams > 0) onReconnect();
        this.#streams += 1;
        for (const request of protocol.open()) opened.send(request);
        this.#awaitAnswers();
        void this.#repeat().catch((error: unknown) => {
          const ended = current();
          ended?.close();
          if (ended !== undefined) lost(toCtlError(error));
        });
      },
      message: (bytes) => {
        if (current() !== undefined && !this.#closed) queue.add(bytes);
      },
      pingedTooOften: () => {
        const rarer = Math.min(2 * this.#keepaliveMs, RAREST_PINGS_MS);
        this.#keepaliveMs = Math.max(this.#keepaliveMs, rarer, RARE_PINGS_MS);
      },
      ended: lost,
    });
    [this.#stream, this.#queue] = [opened, queue];
  }

  /**
   * Reads a message, and applies its events: together, so that they take effect together.
   *
   * @param current the stream that the message has come from, unless it has ended
   */
  *#receive(bytes: Buffer, current: () => ClientStream | undefined): Slices<Received | Promise<Received>> {
    const received = yield* this.#options.protocol.receive(bytes);
    if (received.events.length > 0) this.#hasSent = true;
    const sink = this.#closed ? undefined : this.#sink;
    const sending = sink && this.#unapplied.send(received.events);
    if (sink === undefined || sending === undefined || sending.events.length === 0) return received;
    const isDelayed = sink.delays?.() === true && this.#delayed < MAX_DELAYED;
    const applied = this.#apply(sink, sending);
    if (applied === undefined) return received;
    if (!isDelayed) return applied.then(() => received);
    this.#delayed++;
    applied
      .then(
        () => this.#take(received, current()),
        // The next stream repeats what was not applied.
        (error: unknown) => current() !== undefined && this.#reopenAfter(error),
      )
      .finally(() => this.#delayed--);
    return NOT_YET;
  }

  /**
   * Sends what could not be applied: a server that was told which versions are known does not send it again. Rejects
   * with CtlError when it still cannot be applied.
   */
  async #repeat(): Promise<void> {
    const sending = this.#unapplied.send([]);
    if (this.#sink === undefined || sending.events.length === 0) return;
    await this.#apply(this.#sink, sending);
    this.#checkSynced();
  }

  /** Throws, or rejects with, CtlError for events that cannot be applied: an equal response later has no events. */
  #apply(sink: SourceSink, sending: Sending): Promise<void> | undefined {
    const failed = (error: unknown): never => {
      sending.failed();
      const what = this.#unapplied.named() || 'documents';
      throw new CtlError('internal', `cannot apply ${what}: ${oneLineOf(error)}`, {}, error);
    };
    try {
      const applied = applyInSlices(sink, sending.events);
      if (applied !== undefined) return applied.then(() => sending.applied(), failed);
      sending.applied();
      return undefined;
    } catch (error) {
      return failed(error);
    }
  }

  #reopenAfter(error: unknown): void {
    this.#health.bad(`${this.id}: ${oneLineOf(error)}`, CONSEQUENCE);
    this.#reopen();
  }

  /** @param stream that the message has come from, unless it has ended */
  #take(received: Received, stream: ClientStream | undefined): void {
    const { group, problem } = received;
    if (this.#closed) return;
    for (const reply of this.#repliesTo(received)) stream?.send(reply);
    if (problem !== undefined) {
      if (group !== undefined) this.#refused.set(group, problem);
      this.#health.bad(`${this.id}: a response is refused: ${problem}`, CONSEQUENCE);
      return;
    }
    if (group === undefined) return;
    this.#failures = 0;
    this.#refused.delete(group);
    const [other] = this.#refused.values();
    if (other !== undefined) this.#health.bad(`${this.id}: a response is refused: ${other}`, CONSEQUENCE);
    else if (stream !== undefined) this.#health.good(`${this.id} is read again`);
    this.#waiting.delete(group);
    this.#checkSynced();
  }

  /** A document that the sink has refused is refused for its server, too. */
  #repliesTo({ replies, documents = [], nack }: Received): readonly Uint8Array[] {
    const refusals = this.#sink?.refusals?.();
    if (nack === undefined || refusals === undefined || refusals.size === 0) return replies;
    const refused = documents.flatMap((key) => {
      const message = refusals.get(key);
      return message === undefined ? [] : `${key.slice(key.indexOf('/') + 1)}: ${message}`;
    });
    return refused.length === 0 ? replies : nack(refused);
  }

  #checkSynced(): void {
    if (this.#unanswered().length === 0) this.#patience?.cancel();
    if (this.#waiting.size > 0 || this.#unapplied.size > 0 || this.#isSynced) return;
    this.#isSynced = true;
    // A server that has lost its state, or has not read it yet, looks the same: its policies would be missing.
    if (!this.#hasSent)
      this.#options.log.warn(`${this.id} has no documents: it has answered for everything with nothing`);
    this.#first.resolve();
  }

  /** A source that does not answer for everything is not synced: it may have policies. */
  #awaitAnswers(): void {
    this.#patience?.cancel();
    if (this.#unanswered().length === 0) return;
    this.#patience = this.#options.clock.setTimer(PATIENCE_MS, () => {
      const named = `${this.id} has not answered for ${this.#named()}`;
      const change = this.#options.protocol.afterSilence();
      if (change === undefined) {
        this.#options.log.warn(`${named}; ctl-discovery is not ready until then`);
        return;
      }
      this.#log.info(`${named}: ${change}`);
      this.#reopen();
    });
  }

  /** What the stream has to answer for: if it was never answered, the source is not synced. */
  #unanswered(): readonly string[] {
    return this.#waiting.size > 0 ? [...this.#waiting] : this.#options.protocol.awaited;
  }

  #named(): string {
    const names = this.#unanswered();
    const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
    return names.slice(0, MAX_NAMED).join(', ') + more;
  }

  /** What was being processed is completed before anything is requested again. */
  #ended(queue: MessageQueue<Received>, error: CtlError): void {
    if (this.#closed) return;
    this.#stream = undefined;
    this.#patience?.cancel();
    queue.close(() => {
      if (this.#closed) return;
      const change = this.#options.protocol.afterEnd(error);
      if (change === undefined) {
        this.#lost(error);
        return;
      }
      this.#log.info(`${this.id}: ${change}`);
      const { groups } = this.#options.protocol;
      for (const group of this.#waiting) if (!groups.includes(group)) this.#waiting.delete(group);
      this.#checkSynced();
      this.#connect();
    });
  }

  #lost({ message }: CtlError): void {
    if (this.#closed) return;
    this.#failures += 1;
    this.#health.bad(message.startsWith(this.id) ? message : `${this.id}: ${message}`, CONSEQUENCE);
    const { clock, random } = this.#options;
    const delay = backoff(this.#failures, FIRST_RETRY_MS, MAX_RETRY_MS, random, JITTER);
    this.#timer = clock.setTimer(delay, () => this.#connect());
  }

  /** A connection with the certificate of before might be refused at its next stream. */
  #renewed(): void {
    if (this.#stream !== undefined && !this.#closed) this.#reopen();
  }

  #reopen(): void {
    const [stream, queue] = [this.#stream, this.#queue];
    this.#stream = undefined;
    this.#patience?.cancel();
    stream?.close();
    if (queue === undefined) this.#connect();
    else queue.close(() => this.#connect());
  }
}
