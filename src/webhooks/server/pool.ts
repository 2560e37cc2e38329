/**
 * Answers reviews in worker threads: one for injection, without which no Pod starts, and one for validation.
 *
 *   review() ──▶ queue of the webhook (bounded; shared by time) ──one at a time──▶ thread: answer, or why there is none
 *
 * The thread of injection lives on once it has been started: on a busy machine its start takes seconds, and API servers
 * wait 10 s. The thread of validation ends when it is idle for a while, to free its memory.
 */
import { CtlError } from '../../core/errors.ts';
import type { DocumentSettings } from '../../resources/index.ts';
import type {
  AdmissionReply,
  AdmissionTask,
  NumberedProxyConfigs,
  NumberedSettings,
  ReviewAnswer,
  Webhook,
} from '../tasks.ts';
import type { InjectionSettings, ProxyConfigDocuments, ProxyConfigs } from '../types.ts';
import { type Caller, namespaceIn, RANK_SHARES, rankNumber } from './callers.ts';
import { AdmissionReviewQueue, type Taken } from './review-queue.ts';
import { closedError, ReviewThread } from './review-thread.ts';

/** Reviews of one webhook that wait. */
const MAX_WAITING = 256;

/** Time without reviews after which the thread of validation ends, ms. */
const IDLE_MS = 60_000;

/** Minimum expected duration of a review, ms, in addition to that for its size. */
const LEAST_ESTIMATE_MS = 1;
const ESTIMATED_BYTES_PER_MS = 2_000;

export interface Review {
  readonly caller: Caller;
  readonly webhook: Webhook;
  readonly body: Uint8Array;
  /** Aborted when no caller waits for the result any more. */
  readonly signal: AbortSignal;
}

export interface AdmissionPool {
  /**
   * Rejects with CtlError: invalid_argument when the body is not a review, resource_exhausted when too many reviews
   * wait, deadline_exceeded when the worker hangs, internal when the review failed or the worker ended each time,
   * unavailable when the pool is closed or the signal aborts.
   */
  review(review: Review): Promise<ReviewAnswer>;
  /**
   * Whether settings are usable: undefined, or the problem in one line. Starts the thread of injection, which then
   * answers reviews with these settings without delay. Rejects with CtlError like `review`.
   */
  check(settings: InjectionSettings): Promise<string | undefined>;
  /** The settings for all later reviews; undefined: injection refuses Pods. */
  use(settings: InjectionSettings | undefined): void;
  /** The worker threads, for tests that terminate one. */
  readonly threads: Readonly<Record<Webhook['kind'], readonly { terminate(): Promise<number> }[]>>;
  close(): Promise<void>;
}

export interface AdmissionPoolOptions {
  /** File of the worker's entry point. */
  readonly workerFile: string;
  /** Called when a worker ends by an error. */
  readonly onCrash: (error: unknown) => void;
  /** Reviews of one webhook that wait. */
  readonly maxWaiting?: number;
  readonly taskTimeoutMs?: number;
  /** Time after which the idle thread of validation is stopped, ms. */
  readonly idleMs?: number;
  /** How validation judges documents. */
  readonly documents?: DocumentSettings;
  /** The ProxyConfigs for Pods of a namespace; undefined: the mesh has none. */
  readonly proxyConfigs?: (namespace: string) => ProxyConfigs | undefined;
}

/** A worker asks for each of these at most once, and once more when it has died in between. */
const MAX_ASKED = 6;
const MISSING = ['settings needed', 'namespace needed', 'documents needed'] as const;
type Missing = Extract<AdmissionReply, { kind: (typeof MISSING)[number] }>;

function isMissing(reply: AdmissionReply): reply is Missing {
  return (MISSING as readonly string[]).includes(reply.kind);
}

interface Waiting {
  readonly review: Review;
  readonly resolve: (answer: ReviewAnswer) => void;
  readonly reject: (error: CtlError) => void;
}

/** The reviews of one webhook: those that wait, and the thread that answers them. */
class Line {
  readonly thread: ReviewThread;
  readonly queue: AdmissionReviewQueue<Waiting>;
  busy = false;

  constructor(thread: ReviewThread, maxWaiting: number) {
    this.thread = thread;
    this.queue = new AdmissionReviewQueue({ capacity: maxWaiting, rankShares: RANK_SHARES });
  }
}

class Pool implements AdmissionPool {
  readonly #lines: Readonly<Record<Webhook['kind'], Line>>;
  readonly #documents: DocumentSettings | undefined;
  readonly #proxyConfigs: NonNullable<AdmissionPoolOptions['proxyConfigs']>;
  #settings: NumberedSettings | undefined;
  /** The settings that were checked last. */
  #checked: NumberedSettings | undefined;
  #numbers = 0;
  /** Number of the settings that the thread of injection was sent last; it may have died since. */
  #sent: number | undefined;
  readonly #documentNumbers = new WeakMap<ProxyConfigDocuments, number>();
  /** ProxyConfigs that the thread of injection was sent; it may have died since, or have dropped them. */
  readonly #sentDocuments = new WeakSet<ProxyConfigDocuments>();
  #isReviving = false;
  #closed = false;

  constructor({
    maxWaiting = MAX_WAITING,
    idleMs = IDLE_MS,
    documents,
    proxyConfigs,
    ...options
  }: AdmissionPoolOptions) {
    this.#documents = documents;
    this.#proxyConfigs = proxyConfigs ?? (() => undefined);
    const onEnded = (): void => void this.#revive();
    const injection = new ReviewThread({ ...options, idleMs: Number.POSITIVE_INFINITY, onEnded });
    const validation = new ReviewThread({ ...options, idleMs });
    this.#lines = { inject: new Line(injection, maxWaiting), validate: new Line(validation, maxWaiting) };
  }

  review(review: Review): Promise<ReviewAnswer> {
    if (this.#closed) return Promise.reject(closedError());
    const { caller, webhook, body } = review;
    const line = this.#lines[webhook.kind];
    return new Promise((resolve, reject) => {
      const lane = { rank: rankNumber(caller.rank), caller: caller.address, group: namespaceIn(body) };
      const estimate = LEAST_ESTIMATE_MS + body.length / ESTIMATED_BYTES_PER_MS;
      if (line.queue.push(lane, { review, resolve, reject }, estimate)) this.#dispatch(line);
      else reject(new CtlError('resource_exhausted', `${line.queue.size} reviews are waiting; try again later`));
    });
  }

  async check(settings: InjectionSettings): Promise<string | undefined> {
    const injection = { number: ++this.#numbers, settings };
    const reply = await this.#lines.inject.thread.run(() => ({ kind: 'check', injection }));
    if (reply.kind !== 'checked') return 'the settings could not be checked';
    if (reply.problem === undefined) this.#checked = injection;
    return reply.problem;
  }

  use(settings: InjectionSettings | undefined): void {
    const isChecked = settings !== undefined && settings === this.#checked?.settings;
    this.#settings = isChecked ? this.#checked : settings && { number: ++this.#numbers, settings };
    if (isChecked) this.#sent = this.#checked?.number;
  }

  get threads(): AdmissionPool['threads'] {
    const { inject, validate } = this.#lines;
    return { inject: inject.thread.threads, validate: validate.thread.threads };
  }

  async close(): Promise<void> {
    this.#closed = true;
    const lines = Object.values(this.#lines);
    for (const { queue } of lines) for (const { reject } of queue.drain()) reject(closedError());
    await Promise.all(lines.map(({ thread }) => thread.close()));
  }

  #dispatch(line: Line): void {
    while (!line.busy && !this.#closed) {
      const taken = line.queue.take();
      if (taken === undefined) return;
      const { review, reject } = taken.item;
      if (review.signal.aborted) {
        taken.served(0);
        reject(new CtlError('unavailable', 'the client has disconnected'));
        continue;
      }
      line.busy = true;
      void this.#answer(line, taken).finally(() => {
        line.busy = false;
        this.#dispatch(line);
      });
    }
  }

  async #answer({ thread }: Line, { item, served }: Taken<Waiting>): Promise<void> {
    const { review, resolve, reject } = item;
    const { webhook, body } = review;
    const began = performance.now();
    try {
      const documents = this.#documents;
      let namespace = namespaceIn(body);
      const task = (): AdmissionTask => {
        const injection = this.#numbered(webhook);
        const proxyConfigs = webhook.kind === 'inject' ? this.#numberedProxyConfigs(namespace) : undefined;
        return {
          ...{ kind: 'review', webhook, body, injection },
          ...(proxyConfigs && { proxyConfigs }),
          ...(documents && { documents }),
        };
      };
      let reply = await thread.run(task);
      for (let asked = 0; asked < MAX_ASKED && isMissing(reply); asked++) {
        if (reply.kind === 'settings needed') this.#sent = undefined;
        // Others than API servers may write something else first.
        else if (reply.kind === 'namespace needed') ({ namespace } = reply);
        else this.#forgetSent(namespace);
        reply = await thread.run(task);
      }
      if (reply.kind === 'answered') resolve(reply);
      else if (reply.kind === 'failed') reject(new CtlError(reply.code, reply.message));
      else reject(new CtlError('internal', `unexpected reply ${reply.kind} to a review`));
    } catch (error) {
      reject(error instanceof CtlError ? error : new CtlError('internal', 'the review failed', {}, error));
    } finally {
      served(performance.now() - began);
    }
  }

  /** Starts the thread of injection again, without waiting for a review. Once: a review tries again. */
  async #revive(): Promise<void> {
    if (this.#isReviving || this.#closed) return;
    this.#isReviving = true;
    const injection = this.#settings;
    const task: AdmissionTask = injection === undefined ? { kind: 'load' } : { kind: 'check', injection };
    try {
      await this.#lines.inject.thread.run(() => task);
    } catch {
      // `onCrash` has reported the error.
    } finally {
      this.#isReviving = false;
    }
  }

  #numberedProxyConfigs(namespace: string): NumberedProxyConfigs | undefined {
    const found = this.#proxyConfigs(namespace);
    if (found === undefined) return undefined;
    const { documents } = found;
    const number = this.#documentNumbers.get(documents) ?? ++this.#numbers;
    this.#documentNumbers.set(documents, number);
    const isSent = this.#sentDocuments.has(documents);
    this.#sentDocuments.add(documents);
    return { namespace: found.namespace, number, ...(!isSent && { documents }) };
  }

  #forgetSent(namespace: string): void {
    const found = this.#proxyConfigs(namespace);
    if (found !== undefined) this.#sentDocuments.delete(found.documents);
  }

  #numbered(webhook: Webhook): NumberedSettings | number | undefined {
    const current = this.#settings;
    if (webhook.kind !== 'inject' || current === undefined) return undefined;
    if (this.#sent === current.number) return current.number;
    this.#sent = current.number;
    return current;
  }
}

export function createAdmissionPool(options: AdmissionPoolOptions): AdmissionPool {
  return new Pool(options);
}
