/**
 * Resolves the host names of gateways of networks, as long as the published snapshot has them, and reports gateways
 * without an address. Only changed addresses are published. While no name server answers, the last addresses stay.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock, Timer } from '../../core/clock.ts';
import { messageOf } from '../../core/errors.ts';
import { createSharedFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { type Outcome, WorkQueue } from '../../core/work-queue.ts';
import type { Snapshot } from '../../model/index.ts';
import { type MeshUpdate, NO_EVENT, type ResolvedHosts } from '../../resources/index.ts';
import type { HostAnswer, ResolveHost } from './resolve-host.ts';

export interface GatewayHostsOptions {
  readonly resolve: ResolveHost;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** Names that are resolved at the same time. */
const CONCURRENCY = 4;
/** Limits of the time for which an answer is used, s: those of Istio. */
const MIN_TTL_SECONDS = 30;
const MAX_TTL_SECONDS = 3600;
/** Answers that come within this time are published together, ms. */
const GATHER_MS = 100;
/** How long the start waits for the first answers, ms: without them it would take the endpoints behind them away. */
const FIRST_ANSWERS_MS = 5000;

export class GatewayHosts {
  readonly #options: GatewayHostsOptions;
  readonly #queue: WorkQueue;
  readonly #failuresOf: (host: string) => FailureLog;
  #wanted: ReadonlySet<string> = new Set();
  /** Names that have been tried. */
  readonly #tried = new Set<string>();
  readonly #resolved = new Map<string, readonly string[]>();
  #problems: readonly string[] = [];
  #pending: Timer | undefined;
  #isChanged = false;
  #allTried = Promise.withResolvers<void>();
  #deliver: ((update: MeshUpdate) => void) | undefined;

  constructor(options: GatewayHostsOptions) {
    this.#options = options;
    const { clock, random, log } = options;
    this.#failuresOf = createSharedFailureLog(log, 'mesh networks', 'mesh networks: host names are resolved again');
    this.#queue = new WorkQueue({ work: (host) => this.#work(host), concurrency: CONCURRENCY, clock, random });
  }

  /** Called with each published snapshot. */
  published({ gatewayHosts, gatewayProblems }: Pick<Snapshot, 'gatewayHosts' | 'gatewayProblems'>): void {
    this.#report(gatewayProblems);
    this.#want(gatewayHosts);
  }

  /** Resolves when all names have been tried, or after a limit. */
  async first(): Promise<void> {
    if (this.#wanted.size === 0) return;
    const waiting = new AbortController();
    const enough = sleep(FIRST_ANSWERS_MS, undefined, { signal: waiting.signal }).catch(() => {});
    await Promise.race([this.#allTried.promise, enough]);
    waiting.abort();
  }

  /** The changed addresses that were not delivered yet. */
  take(): MeshUpdate {
    if (!this.#isChanged) return { changes: [], eventTime: NO_EVENT };
    this.#isChanged = false;
    const resolvedHosts: ResolvedHosts = new Map(this.#resolved);
    return { changes: [], resolvedHosts, eventTime: this.#options.clock.now() };
  }

  /** Calls the listener for later changes, and for those that were not taken. Called once. */
  follow(listener: (update: MeshUpdate) => void): void {
    this.#deliver = listener;
    if (this.#isChanged) this.#gather();
  }

  close(): Promise<void> {
    this.#pending?.cancel();
    return this.#queue.close();
  }

  #want(hosts: readonly string[]): void {
    const wanted = new Set(hosts);
    for (const host of this.#wanted.difference(wanted)) {
      this.#resolved.delete(host);
      this.#tried.delete(host);
    }
    const added = wanted.difference(this.#wanted);
    this.#wanted = wanted;
    for (const host of added) {
      // It may wait since it was wanted before.
      this.#queue.retry(host);
      this.#queue.add(host);
    }
  }

  async #work(host: string): Promise<Outcome> {
    if (!this.#wanted.has(host)) return 'done';
    const answer = await this.#answer(host);
    if (!this.#wanted.has(host)) return 'done';
    this.#tried.add(host);
    if (answer !== undefined) this.#set(host, answer.addresses);
    if (this.#wanted.isSubsetOf(this.#tried)) this.#allTried.resolve();
    if (answer === undefined) return 'failed';
    const seconds = Math.min(MAX_TTL_SECONDS, Math.max(MIN_TTL_SECONDS, answer.ttlSeconds ?? 0));
    return seconds * 1000;
  }

  async #answer(host: string): Promise<HostAnswer | undefined> {
    try {
      const answer = await this.#options.resolve(host);
      this.#failuresOf(host).succeeded();
      return answer;
    } catch (error) {
      const known = this.#resolved.has(host);
      this.#failuresOf(host).failed(`${messageOf(error)}${known ? '; its last addresses stay in use' : ''}`);
      return undefined;
    }
  }

  #set(host: string, addresses: readonly string[]): void {
    const known = this.#resolved.get(host);
    if (known?.length === addresses.length && known.every((each, index) => each === addresses[index])) return;
    this.#resolved.set(host, addresses);
    this.#isChanged = true;
    if (this.#deliver !== undefined) this.#gather();
  }

  #gather(): void {
    this.#pending ??= this.#options.clock.setTimer(GATHER_MS, () => {
      this.#pending = undefined;
      const update = this.take();
      if (update.resolvedHosts !== undefined) this.#deliver?.(update);
    });
  }

  #report(problems: readonly string[]): void {
    if (problems === this.#problems) return;
    const [before, now] = [new Set(this.#problems), new Set(problems)];
    for (const each of now.difference(before)) this.#options.log.warn(`mesh networks: ${each}`);
    for (const each of before.difference(now)) this.#options.log.info(`mesh networks: no longer: ${each}`);
    this.#problems = problems;
  }
}
