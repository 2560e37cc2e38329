/**
 * Resolves the host names of gateways of networks, as long as the published snapshot has them, and reports gateways
 * without an address. Only changed addresses are published. While no DNS server responds, the last addresses stay in
 * use.
 */
import { type Clock, sleep, type Timer } from '../../core/clock.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { type Outcome, WorkQueue } from '../../core/scheduling/work-queue.ts';
import { MAX_GATEWAY_HOSTS, type Snapshot } from '../../model/index.ts';
import { type MeshUpdate, NO_EVENT, type ResolvedHosts } from '../../resources/index.ts';
import { hostAddresses, MAX_ADDRESSES } from './host-addresses.ts';
import type { HostAnswer, ResolveHost } from './resolve-host.ts';

export interface GatewayHostsOptions {
  readonly resolve: ResolveHost;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** Limits of the time for which an answer is used, s: those of Istio. */
const MIN_TTL_SECONDS = 30;
const MAX_TTL_SECONDS = 3600;
/** How long all attempts of a lookup may take together, ms: several name servers are asked one after the other. */
const LOOKUP_MS = 10_000;
/** Answers that come within this time are published together, ms. */
const GATHER_MS = 100;
/**
 * How long the startup waits for the first answers, ms: without them, the endpoints behind these gateways would be
 * removed.
 */
const FIRST_ANSWERS_MS = 5000;

/** A name, from when a gateway has it until none has it. */
interface FollowedHost {
  /** Aborts when no gateway has the name any more. */
  readonly ended: AbortController;
  readonly failures: FailureLog;
  /** One address family is not answered for. */
  readonly outdated: FailureLog;
  /** It has more addresses than are used. */
  readonly excess: FailureLog;
  isTried: boolean;
}

export class GatewayHosts {
  readonly #options: GatewayHostsOptions;
  readonly #queue: WorkQueue;
  readonly #wanted = new Map<string, FollowedHost>();
  /** The last addresses. Those of a name that nobody wants any more go with the next update. */
  readonly #resolved = new Map<string, readonly string[]>();
  #problems: readonly string[] = [];
  #pending: Timer | undefined;
  #isChanged = false;
  #isClosed = false;
  /** Called when all names have been tried. */
  #allTried: () => void = () => {};
  #deliver: ((update: MeshUpdate) => void) | undefined;

  constructor(options: GatewayHostsOptions) {
    this.#options = options;
    const { clock, random } = options;
    const work = (host: string) => this.#work(host);
    // A lookup that hangs delays no other.
    this.#queue = new WorkQueue({ work, concurrency: MAX_GATEWAY_HOSTS, clock, random });
  }

  /** Called with each published snapshot. */
  published({ gatewayHosts, gatewayProblems }: Pick<Snapshot, 'gatewayHosts' | 'gatewayProblems'>): void {
    if (this.#isClosed) return;
    this.#report(gatewayProblems);
    this.#want(new Set(gatewayHosts));
  }

  /** Resolves when all names have been tried, or after a limit. */
  async first(): Promise<void> {
    const waiting = new AbortController();
    this.#allTried = () => waiting.abort();
    this.#noteTried();
    await sleep(this.#options.clock, FIRST_ANSWERS_MS, waiting.signal);
  }

  /** The changed addresses that were not delivered yet. */
  take(): MeshUpdate {
    if (!this.#isChanged) return { changes: [], eventTime: NO_EVENT };
    this.#isChanged = false;
    for (const host of this.#resolved.keys()) if (!this.#wanted.has(host)) this.#resolved.delete(host);
    const resolvedHosts: ResolvedHosts = new Map(this.#resolved);
    return { changes: [], resolvedHosts, eventTime: this.#options.clock.now() };
  }

  /** Calls the listener for later changes, and for those that have not been applied. Called once. */
  follow(listener: (update: MeshUpdate) => void): void {
    this.#deliver = listener;
    if (this.#isChanged) this.#gather();
  }

  /** Nothing is delivered after it was called. Resolves when no lookup runs. */
  close(): Promise<void> {
    this.#isClosed = true;
    this.#pending?.cancel();
    for (const { ended } of this.#wanted.values()) ended.abort();
    return this.#queue.close();
  }

  #want(hosts: ReadonlySet<string>): void {
    for (const [host, { ended }] of this.#wanted) {
      if (hosts.has(host)) continue;
      this.#wanted.delete(host);
      ended.abort();
      if (this.#resolved.has(host)) this.#changed();
    }
    for (const host of hosts) {
      if (this.#wanted.has(host)) continue;
      this.#wanted.set(host, this.#followedHost(host));
      // It may wait since it was wanted before.
      this.#queue.retry(host);
      this.#queue.add(host);
    }
    this.#noteTried();
  }

  #followedHost(host: string): FollowedHost {
    const { log } = this.#options;
    const name = `mesh networks: host name ${host}`;
    return {
      ended: new AbortController(),
      failures: createFailureLog(log, `${name} cannot be resolved`, `${name} is resolved again`),
      outdated: createFailureLog(log, `${name} is resolved in part`, `${name} is resolved completely again`),
      excess: createFailureLog(log, `${name} has too many addresses`, `${name} no longer has too many addresses`),
      isTried: false,
    };
  }

  async #work(host: string): Promise<Outcome> {
    const followed = this.#wanted.get(host);
    if (followed === undefined) return 'done';
    const answer = await this.#lookUp(host, followed.ended.signal);
    // When it is wanted again, it is in the queue again.
    if (followed.ended.signal.aborted) return 'done';
    followed.isTried = true;
    const found = hostAddresses(this.#resolved.get(host), answer);
    if ('addresses' in found) this.#set(host, found.addresses);
    this.#noteTried();
    this.#reportHost(host, followed, found);
    if ('problem' in found) return 'failed';
    return Math.min(MAX_TTL_SECONDS, Math.max(MIN_TTL_SECONDS, found.ttlSeconds ?? 0)) * 1000;
  }

  async #lookUp(host: string, ended: AbortSignal): Promise<HostAnswer> {
    const { resolve, clock } = this.#options;
    const late = new AbortController();
    const text = `no name server answered within ${LOOKUP_MS / 1000} s`;
    const timer = clock.setTimer(LOOKUP_MS, () => late.abort(new CtlError('deadline_exceeded', text)));
    try {
      return await resolve(host, AbortSignal.any([ended, late.signal]));
    } catch (error) {
      const problem = { problem: messageOf(error) };
      return { ipv4: problem, ipv6: problem };
    } finally {
      timer.cancel();
    }
  }

  #reportHost(
    host: string,
    { failures, outdated, excess }: FollowedHost,
    found: ReturnType<typeof hostAddresses>,
  ): void {
    if ('problem' in found) {
      const effect = this.#resolved.has(host) ? '; its last addresses stay in use' : '';
      failures.failed(`${found.problem}${effect}`);
      return;
    }
    failures.succeeded();
    if (found.outdated === undefined) outdated.succeeded();
    else outdated.failed(`${found.outdated}; the last addresses of this family stay in use`);
    const count = MAX_ADDRESSES + found.leftOut;
    if (found.leftOut === 0) excess.succeeded();
    else excess.failed(`of ${count} addresses, the first ${MAX_ADDRESSES} in order are used`);
  }

  #noteTried(): void {
    if (this.#wanted.values().every(({ isTried }) => isTried)) this.#allTried();
  }

  #set(host: string, addresses: readonly string[]): void {
    const known = this.#resolved.get(host);
    if (known?.length === addresses.length && known.every((each, index) => each === addresses[index])) return;
    this.#resolved.set(host, addresses);
    this.#changed();
  }

  #changed(): void {
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
    for (const each of before.difference(now)) this.#options.log.info(`mesh networks: no longer a problem: ${each}`);
    this.#problems = problems;
  }
}
