/**
 * Elects one of several replicas by a Lease of the API server: at most one leads at a time.
 *
 *   follow ──the Lease is free──▶ write it ──▶ lead, renew ──lost, or closed──▶ follow, or release it
 *
 * The rules are those of client-go's leader election. Each replica measures time by its own monotonic clock, from what
 * it has seen or written itself: a follower takes the Lease when it has not seen a change for LEASE_MS, and the write
 * is refused when there was one. The leader stops DEADLINE_MS after it began its last successful write. A leader whose
 * writes hang, or whose process was suspended, has therefore stopped before another replica begins to lead, unless one
 * clock runs 1.5 times as fast as another.
 *
 * Two rules are stricter. A deleted Lease counts as held until LEASE_MS have passed, because its leader may learn of
 * the deletion later than others. The replica that then creates the Lease leads only after another LEASE_MS: a third
 * replica may have led in between with a Lease that was also deleted, and learns of the new Lease when it renews its
 * own. Only a replica that has just started leads at once after creating the Lease. A Lease without a holder is free at
 * once only if its holder has released it; after a manual edit it counts as held.
 */
import { backoff } from '../../core/backoff.ts';
import { type Clock, sleep, type Timer } from '../../core/clock.ts';
import { oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { ApiError, ConnectionError } from '../api-error.ts';
import { type Lease, type LeaseAccess, type LeaseSpec, microTime } from './lease.ts';

/** How long a Lease that is not renewed still belongs to its holder, ms. */
export const LEASE_MS = 15_000;
/** Time after the last successful write at which the leader stops, ms. */
export const DEADLINE_MS = 10_000;
/** Interval between two successful writes of the leader, ms. */
const RENEW_MS = 5000;
/** Interval between attempts after failures, ms. */
const RETRY_MS = 2000;
const MAX_RETRY_MS = 15_000;
/** Maximum duration of a Lease, ms: an edit cannot block it forever. */
const MAX_LEASE_MS = 60_000;
/** Duration of a released Lease, seconds; the API requires a positive one. */
const RELEASED_SECONDS = 1;
/** Interval between attempts of a task that fails, ms. */
const TASK_RETRY_MS = 1000;
const MAX_TASK_RETRY_MS = 60_000;

export interface LeaderElectionOptions {
  readonly lease: LeaseAccess;
  /** Name of this replica in the Lease. It must be unique, also among former processes. */
  readonly identity: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Epoch ms, for the times in the Lease. */
  readonly now: () => number;
  readonly log: Log;
  /**
   * Runs while this replica leads. `signal` aborts as soon as that ends; the replica does not lead again before the
   * task has ended. A task that fails is run again after a pause.
   */
  readonly lead: (signal: AbortSignal) => Promise<void> | void;
}

/** The time for which a replica leads. */
interface Term {
  /** By the monotonic clock, ms. */
  until: number;
  lease: Lease;
  readonly ending: AbortController;
  deadline: Timer | undefined;
}

export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #failures: FailureLog;
  readonly #closing = new AbortController();
  /** The Lease as it was last read; undefined when it has not been read. */
  #seen: { readonly lease: Lease | undefined; readonly isFree: boolean } | undefined;
  /** Whether the Lease was ever read or found missing. */
  #hasLooked = false;
  /** When the Lease may be taken, as far as this replica knows, by the monotonic clock, ms. */
  #freeAt = 0;
  /** Whether this replica may have created its Lease and not led yet. */
  #hasCreated = false;
  #term: Term | undefined;
  #waking = new AbortController();
  #running: Promise<void> | undefined;

  constructor(options: LeaderElectionOptions) {
    this.#options = options;
    const { name } = options.lease;
    const what = `leader election with Lease ${name}`;
    this.#failures = createFailureLog(options.log, what, `${what} works again`);
  }

  /** Whether this replica leads now, by the clock: correct even right after the process was suspended. */
  get isLeading(): boolean {
    const term = this.#term;
    return term !== undefined && !term.ending.signal.aborted && this.#options.clock.now() < term.until;
  }

  /** The holder of the Lease as last read; undefined if it has none. */
  get holder(): string | undefined {
    if (this.isLeading) return this.#options.identity;
    return this.#seen?.lease?.spec.holderIdentity || undefined;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Ends the task and releases the Lease, so that another replica leads at once. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#term?.ending.abort();
    this.#waking.abort();
    await this.#running;
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  async #run(): Promise<void> {
    const endWatch = this.#options.lease.watch((lease) => this.#observe(lease));
    let failures = 0;
    while (!this.#isClosed) {
      try {
        const term = await this.#attempt();
        failures = 0;
        if (term !== undefined) await this.#lead(term);
      } catch (error) {
        this.#failed(error);
        await this.#pause(backoff(++failures, RETRY_MS, MAX_RETRY_MS, this.#options.random));
      }
    }
    await endWatch();
  }

  /** Waits until the Lease is free, or takes it if it is. Undefined: not taken. */
  async #attempt(): Promise<Term | undefined> {
    const { lease: access, clock } = this.#options;
    const seen = this.#seen;
    if (seen === undefined) {
      this.#observe(await access.read());
      this.#failures.succeeded();
      return undefined;
    }
    const at = clock.now();
    if (at < this.#freeAt) {
      await this.#pause(this.#freeAt - at);
      return undefined;
    }
    try {
      const spec = this.#spec(seen.lease);
      if (seen.lease === undefined && !seen.isFree) {
        this.#hasCreated = true;
        this.#observe(await access.create(spec));
        this.#failures.succeeded();
        return undefined;
      }
      const lease = seen.lease === undefined ? await access.create(spec) : await access.replace(seen.lease, spec);
      this.#failures.succeeded();
      this.#hasCreated = false;
      return { lease, until: at + DEADLINE_MS, ending: new AbortController(), deadline: undefined };
    } catch (error) {
      if (!isConflict(error)) throw error;
      this.#observe(await access.read());
      // No change explains the error: the namespace may not exist.
      if (this.#seen === seen) throw error;
      return undefined;
    }
  }

  /** Leads until the Lease is lost or the election is closed. */
  async #lead(term: Term): Promise<void> {
    const { log, lease: access } = this.#options;
    const { signal } = term.ending;
    this.#term = term;
    signal.addEventListener('abort', () => this.#waking.abort(), { once: true });
    this.#expect(term);
    if (this.#isClosed) term.ending.abort();
    else log.info(`became the leader: holds Lease ${access.name}`);
    const task = this.#runTask(signal);
    const lost = await this.#renewals(term);
    term.ending.abort();
    term.deadline?.cancel();
    if (lost !== undefined) log.warn(`stopped leading: Lease ${access.name} ${lost}`);
    const ended = await this.#ended(task);
    this.#term = undefined;
    this.#seen = undefined;
    if (lost === undefined && ended) await this.#release(term.lease);
  }

  /** Stops the task when the Lease has not been renewed in time. */
  #expect(term: Term): void {
    term.deadline?.cancel();
    const wait = Math.max(0, term.until - this.#options.clock.now());
    term.deadline = this.#options.clock.setTimer(wait, () => term.ending.abort());
  }

  /** Renews the Lease. Resolves with the reason when it is lost, and with undefined when the election is closed. */
  async #renewals(term: Term): Promise<string | undefined> {
    const { clock, random } = this.#options;
    let wait = RENEW_MS;
    let reason = '';
    for (;;) {
      await this.#pause(Math.min(wait, Math.max(0, term.until - clock.now())));
      if (this.#isClosed) return undefined;
      if (!this.isLeading) return `was not renewed for ${DEADLINE_MS / 1000} s${reason}`;
      const at = clock.now();
      try {
        const lease = await this.#renew(term.lease);
        if (typeof lease === 'string') return lease;
        term.lease = lease;
        this.#failures.succeeded();
        wait = RENEW_MS;
        reason = '';
        if (!this.isLeading) continue;
        term.until = at + DEADLINE_MS;
        this.#expect(term);
      } catch (error) {
        reason = `: ${oneLineOf(error)}`;
        this.#failed(error);
        wait = RETRY_MS * (1 - random() / 2);
      }
    }
  }

  /** Returns the renewed Lease, or the reason why it is lost. */
  async #renew(held: Lease): Promise<Lease | string> {
    const { lease: access } = this.#options;
    const written = await this.#rewrite(held, (lease) => this.#spec(lease));
    return written ?? access.create(this.#spec(held));
  }

  /**
   * Writes to the Lease that this replica holds. Returns undefined if it was deleted, and a string that names the new
   * holder if there is one.
   */
  async #rewrite(held: Lease, specOf: (lease: Lease) => LeaseSpec): Promise<Lease | string | undefined> {
    const { lease: access, identity } = this.#options;
    try {
      return await access.replace(held, specOf(held));
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
    // An attempt without an answer may have succeeded, and people may have edited or deleted the Lease.
    const lease = await access.read();
    if (lease === undefined) return undefined;
    const { holderIdentity } = lease.spec;
    if (holderIdentity === identity) return access.replace(lease, specOf(lease));
    return holderIdentity === '' ? 'was edited: it has no holder' : `is held by ${JSON.stringify(holderIdentity)}`;
  }

  async #runTask(signal: AbortSignal): Promise<void> {
    const { lead, log, clock, random, lease } = this.#options;
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        await lead(signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        log.error(`leader task (Lease ${lease.name}): ${oneLineOf(error)}`);
        await sleep(clock, backoff(failures, TASK_RETRY_MS, MAX_TASK_RETRY_MS, random), signal);
      }
    }
  }

  /** Waits for the end of a task; false when the election is closed and the task does not end. */
  async #ended(task: Promise<void>): Promise<boolean> {
    const { clock, log, lease } = this.#options;
    const done = new AbortController();
    void task.then(() => done.abort());
    await sleep(clock, DEADLINE_MS, done.signal);
    if (done.signal.aborted) return true;
    log.warn(`leader task (Lease ${lease.name}) has not ended; this replica does not lead until it has`);
    const either = AbortSignal.any([done.signal, this.#closing.signal]);
    while (!either.aborted) await sleep(clock, DEADLINE_MS, either);
    return done.signal.aborted;
  }

  async #release(held: Lease): Promise<void> {
    const { lease: access, log } = this.#options;
    try {
      await this.#rewrite(held, (lease) => {
        return { ...this.#spec(lease), holderIdentity: '', leaseDurationSeconds: RELEASED_SECONDS };
      });
      log.info(`stopped leading: released Lease ${access.name}`);
    } catch (error) {
      const after = `another replica leads after ${LEASE_MS / 1000} s`;
      log.warn(`Lease ${access.name} could not be released: ${oneLineOf(error)}; ${after}`);
    }
  }

  #failed(error: unknown): void {
    // The connection reports that itself, once for everything that uses it.
    if (error instanceof ConnectionError && error.lost) return;
    this.#failures.failed(oneLineOf(error));
  }

  #observe(lease: Lease | undefined): void {
    if (this.#seen !== undefined && this.#seen.lease?.version === lease?.version) return;
    const { clock, identity } = this.#options;
    const isOwn = lease?.spec.holderIdentity === identity && !this.#hasCreated;
    const isFree = lease === undefined ? !this.#hasLooked : isOwn || isReleased(lease);
    this.#hasLooked = true;
    this.#seen = { lease, isFree };
    this.#freeAt = clock.now() + (isFree ? 0 : durationOf(lease));
    // A leader checks by a renewal whether this is its own Lease: the watch may be behind its own writes.
    if (this.#term === undefined || lease?.spec.holderIdentity !== identity) this.#waking.abort();
  }

  /** The spec with this replica as the holder, given the previous Lease. */
  #spec(before: Lease | undefined): LeaseSpec {
    const { identity, now } = this.#options;
    const renewTime = microTime(now());
    const isOwn = before?.spec.holderIdentity === identity;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: LEASE_MS / 1000,
      acquireTime: (isOwn && before.spec.acquireTime) || renewTime,
      renewTime,
      leaseTransitions: before === undefined ? 0 : before.spec.leaseTransitions + (isOwn ? 0 : 1),
    };
  }

  /**
   * Waits until the time has passed or something changes; returns at once if something has changed since the last wait.
   */
  async #pause(ms: number): Promise<void> {
    if (this.#isClosed) return;
    await sleep(this.#options.clock, ms, this.#waking.signal);
    this.#waking = new AbortController();
  }
}

function isConflict(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 409 || error.status === 404);
}

function isReleased({ spec }: Lease): boolean {
  return spec.holderIdentity === '' && spec.leaseDurationSeconds <= RELEASED_SECONDS;
}

function durationOf(lease: Lease | undefined): number {
  const seconds = lease?.spec.leaseDurationSeconds ?? 0;
  return Math.min(Math.max(seconds * 1000, LEASE_MS), MAX_LEASE_MS);
}
