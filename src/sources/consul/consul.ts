/**
 * The registry `ExtRegistry`: a Consul catalogue, whose services become documents of the mesh (`documents.ts`). Each
 * datacenter is read by itself (`datacenter.ts`); a service of several has the instances of all.
 *
 * While the registry cannot be read, everything stays as it was.
 */
import { backoff } from '../../core/backoff.ts';
import type { Timer } from '../../core/clock.ts';
import { messageOf } from '../../core/errors.ts';
import { eventId, type ListedEvent, type ResourceEvent, type ResourceKey } from '../../resources/index.ts';
import { HealthLog } from '../health.ts';
import type { Source, SourceHealth, SourceSink } from '../source.ts';
import { UnappliedEvents } from '../unapplied-events.ts';
import { type Call, ConsulClient } from './client.ts';
import { Datacenter } from './datacenter.ts';
import { SOURCE, serviceDocuments } from './documents.ts';
import { ProblemEvents } from './problem-events.ts';
import type { ConsulSourceOptions } from './types.ts';

/** Documents are made for this long without a pause, ms. */
const TURN_MS = 4;
/** Before changes that could not be applied are sent again, the first and the longest delay, ms. */
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;

/** What the source needs of the outside, apart from time. */
export interface ConsulOutside {
  readonly call?: Call;
  /** Resolves when other work had its turn. */
  readonly pause?: () => Promise<void>;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export function createConsulSource(options: ConsulSourceOptions, outside: ConsulOutside = {}): Source {
  return new ConsulSource(options, outside);
}

class ConsulSource implements Source {
  readonly id = SOURCE;
  readonly cluster: string;
  readonly synced: Promise<void>;
  readonly #options: ConsulSourceOptions;
  readonly #client: ConsulClient;
  readonly #pause: () => Promise<void>;
  readonly #datacenters: readonly Datacenter[];
  readonly #health: HealthLog;
  readonly #first = Promise.withResolvers<void>();
  /** Datacenter → what fails there. */
  readonly #failing = new Map<string, string>();
  /** Service, in lower case → the documents that were sent, with their fingerprints or problems. */
  readonly #sent = new Map<string, ReadonlyMap<ResourceKey, string>>();
  readonly #problems = new ProblemEvents();
  /** Services, in lower case, whose documents may have changed → when the change was noticed, monotonic ms. */
  readonly #changed = new Map<string, number>();
  /** What the sink could not apply. */
  readonly #unapplied = new UnappliedEvents();
  #sink: SourceSink | undefined;
  #waiting: number;
  #isListed = false;
  #flush: Timer | undefined;
  #flushing: Promise<void> = Promise.resolve();
  /** Failures in a row to send changes. */
  #failures = 0;
  #isRetryPending = false;
  /** Why changes could not be sent, as it was logged last. */
  #problem = '';
  #isClosed = false;
  #wasHeld = false;

  constructor(options: ConsulSourceOptions, { call, pause = nextTurn }: ConsulOutside) {
    this.cluster = options.cluster;
    this.#options = options;
    this.#pause = pause;
    this.synced = this.#first.promise;
    this.#client = new ConsulClient(options, options.clock, call);
    this.#health = new HealthLog(options.log, options.clock.now);
    const turns = { now: options.clock.now, pause };
    const names = options.datacenters.length === 0 ? [''] : options.datacenters;
    this.#waiting = names.length;
    this.#datacenters = names.map(
      (name) =>
        new Datacenter(
          { ...options, client: this.#client, name, turns },
          {
            changed: (services) => this.#note(services),
            health: (reason) => this.#noteHealth(name, reason),
            synced: () => this.#noteSynced(),
          },
        ),
    );
  }

  start(sink: SourceSink): void {
    this.#sink = sink;
    for (const datacenter of this.#datacenters) datacenter.start();
  }

  health(): SourceHealth {
    const { current } = this.#health;
    if (current.ok || this.#isListed) return current;
    // Nothing of the source is in force, so nothing is out of date.
    return { ok: false, reason: current.reason };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#flush?.cancel();
    await Promise.all(this.#datacenters.map((datacenter) => datacenter.close()));
    await this.#flushing;
    this.#client.close();
  }

  #note(services: readonly string[]): void {
    const now = this.#options.clock.now();
    for (const name of services) if (!this.#changed.has(name)) this.#changed.set(name, now);
    this.#schedule();
  }

  #noteHealth(datacenter: string, reason: string | undefined): void {
    if (this.#isClosed) return;
    if (reason === undefined) this.#failing.delete(datacenter);
    else this.#failing.set(datacenter, datacenter === '' ? reason : `datacenter ${datacenter}: ${reason}`);
    const [first] = this.#failing.values();
    const { server } = this.#client;
    if (first === undefined) this.#health.good(`Consul ${server} can be read again`);
    else {
      const consequence = this.#isListed ? 'what was read before stays in force' : 'waiting for it';
      this.#health.bad(`cannot read Consul: ${first}`, consequence);
    }
  }

  #noteSynced(): void {
    this.#waiting--;
    this.#schedule();
  }

  /** New changes do not wait for a retry of others. */
  #schedule(delayMs = 0): void {
    if (this.#isRetryPending) {
      this.#flush?.cancel();
      this.#flush = undefined;
    }
    if (this.#isClosed || this.#waiting > 0 || this.#flush !== undefined) return;
    this.#isRetryPending = delayMs > 0;
    this.#flush = this.#options.clock.setTimer(delayMs, () => {
      this.#isRetryPending = false;
      this.#flushing = this.#flushNow();
    });
  }

  /** Never rejects: what failed is sent again, with growing delays. */
  async #flushNow(): Promise<void> {
    let retryMs = 0;
    try {
      await this.#send();
      this.#failures = 0;
      this.#problem = '';
    } catch (error) {
      this.#failures++;
      retryMs = backoff(this.#failures, FIRST_RETRY_MS, MAX_RETRY_MS, this.#options.random);
      const problem = messageOf(error).replaceAll(/\s+/g, ' ');
      const line = `cannot apply changes of Consul: ${problem}; trying again`;
      if (problem !== this.#problem) this.#options.log.error(line);
      this.#problem = problem;
    }
    this.#flush = undefined;
    if (retryMs > 0 || this.#changed.size > 0) this.#schedule(retryMs);
  }

  /** Sends the documents of the services that changed; the first time, all documents. */
  async #send(): Promise<void> {
    const { clock } = this.#options;
    const startedAt = clock.now();
    const events: ResourceEvent[] = [];
    const failed = new Map<string, number>();
    let failure: unknown;
    let resumedAt = startedAt;
    try {
      for (const [name, eventTime] of this.#changed) {
        this.#changed.delete(name);
        try {
          events.push(...this.#eventsOf(name, eventTime));
        } catch (error) {
          // The others do not wait for it.
          failed.set(name, eventTime);
          failure = error;
        }
        if (clock.now() - resumedAt < TURN_MS) continue;
        await this.#pause();
        if (this.#isClosed) return;
        resumedAt = clock.now();
        // Changes of health are not kept waiting by the documents of a long list.
        if (this.#isListed && events.length > 0) this.#apply(events.splice(0));
      }
      events.push(...this.#problems.update(this.#datacenters, startedAt));
      this.#logHeld();
    } catch (error) {
      // They count as sent.
      this.#unapplied.send(events).failed();
      throw error;
    } finally {
      for (const [name, eventTime] of failed) this.#changed.set(name, eventTime);
    }
    if (this.#isClosed) return;
    this.#apply(events, startedAt);
    if (failed.size > 0) throw failure;
  }

  /** Sends these after those that the sink could not apply. */
  #apply(newer: readonly ResourceEvent[], listedAt = 0): void {
    const sending = this.#unapplied.send(newer);
    // A service may have changed again while the documents were made.
    const newest = new Map(sending.events.map((event) => [eventId(event), event]));
    try {
      if (!this.#isListed) {
        const listed = [...newest.values()].filter((event) => event.type === 'set' || event.type === 'invalid');
        this.#sink?.replace({ events: listed, eventTime: listedAt });
        this.#isListed = true;
        this.#first.resolve();
      } else if (sending.events.length > 0) this.#sink?.apply(sending.events);
    } catch (error) {
      sending.failed();
      throw error;
    }
    sending.applied();
  }

  #eventsOf(name: string, eventTime: number): ResourceEvent[] {
    const instances = this.#datacenters.flatMap((datacenter) => datacenter.instancesOf(name));
    const before = this.#sent.get(name) ?? new Map<ResourceKey, string>();
    const documents = serviceDocuments(name, instances, this.#options, eventTime);
    const after = new Map<ResourceKey, string>();
    const events: ResourceEvent[] = [];
    for (const [key, event] of documents) {
      const content = event.type === 'set' ? contentOf(event) : `refused: ${event.problem.message}`;
      after.set(key, content);
      if (before.get(key) !== content) events.push(event);
    }
    for (const key of before.keys()) if (!after.has(key)) events.push({ type: 'delete', key, eventTime });
    if (after.size > 0) this.#sent.set(name, after);
    else this.#sent.delete(name);
    return events;
  }

  /** Logs when a loss of services is not believed, and when that ends. */
  #logHeld(): void {
    const { log, clock } = this.#options;
    const held = this.#datacenters.flatMap((datacenter) => datacenter.held() ?? []);
    const services = held.reduce((sum, each) => sum + each.services, 0);
    const isHeld = services > 0;
    if (isHeld === this.#wasHeld) return;
    this.#wasHeld = isHeld;
    const minutes = Math.round((Math.max(0, ...held.map(({ until }) => until)) - clock.now()) / 60_000);
    if (isHeld) {
      log.warn(
        `Consul no longer has ${services} services, or instances of them, after a reset or all at once; ` +
          `they stay in force for ${minutes} minutes (CTL_EXTREGISTRY_HOLD)`,
      );
    } else log.info('Consul has no missing services any more, or they have been removed');
  }
}

function contentOf({ resource }: Extract<ListedEvent, { type: 'set' }>): string {
  const warnings = (resource.warnings ?? []).map(({ field, message }) => `${field} ${message}`);
  return `${resource.fingerprint} ${warnings.join()}`;
}
