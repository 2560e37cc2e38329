/**
 * Reads one datacenter of the registry. However many services there are, it has three requests that wait for changes,
 * one more for the list of all checks, and `maxRequests` about single services:
 *
 * 1. The list of services waits for changes of registrations. New services, and those with other tags, are read at
 *    once (`/v1/health/service/NAME`).
 * 2. The lists of critical and of warning checks wait for changes of health. They are short, name the instances, and
 *    need no other request.
 * 3. The list of services does not say which service changed when an instance was added or removed. After each change
 *    the list of all checks is read once, which says it for instances with checks; these services are read at once.
 * 4. What checks do not show (metadata, addresses, weights, instances without checks) is found by a sweep: each service
 *    is read again, some in each second.
 */
import { backoff } from '../../core/backoff.ts';
import type { Timer } from '../../core/clock.ts';
import { CtlError, toCtlError } from '../../core/errors.ts';
import { type Check, checkOf, MAX_NAME, type Registration, registrationOf, tagsSignature } from './answers.ts';
import { BlockingQuery, type BlockingQueryOptions } from './blocking-query.ts';
import { Catalogue, type Consequences, type Excess } from './catalogue.ts';
import type { Answer, Ask, ConsulClient } from './client.ts';
import { isServiceName } from './documents.ts';
import { readElements, readEntries, type Turns } from './json-members.ts';
import type { Instance } from './known-instances.ts';
import { type Blame, ReadQueue } from './read-queue.ts';
import { Survey } from './survey.ts';
import type { ConsulSourceOptions } from './types.ts';

/** Largest answers. A service with 10,000 instances, or 20,000 services with tags, take less. */
const MAX_LIST_BYTES = 64 * 1024 * 1024;
const MAX_SERVICE_BYTES = 16 * 1024 * 1024;
/** Changes of registrations within this time are read together, ms. */
const NAMES_GAP_MS = 100;
/** The same for changes of health, which take instances out of use. */
const STATES_GAP_MS = 20;
/** A registry whose index goes backwards again and again is read anew this often at most, ms. */
const RESET_MS = 30_000;
/** After failures of all servers: 0.5 s, 1 s, … 10 s. */
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;
/** After failures of a single service: 0.5 s, 1 s, … 30 s. */
const MAX_OWN_RETRY_MS = 30_000;
/** Before another server is asked, ms. */
const NEXT_SERVER_MS = 50;

export interface DatacenterHandlers {
  /** These services changed, in lower case, or problems did. */
  changed(names: readonly string[]): void;
  /** What fails, in one line; undefined when nothing does. Called for each change. */
  health(reason: string | undefined): void;
  /** Everything that existed at start was read. Called once. */
  synced(): void;
}

export interface DatacenterOptions extends ConsulSourceOptions {
  readonly client: Pick<ConsulClient, 'get'>;
  /** Its name; `''`: that of the server. */
  readonly name: string;
  readonly turns: Turns;
}

export class Datacenter {
  readonly name: string;
  readonly #options: DatacenterOptions;
  readonly #handlers: DatacenterHandlers;
  readonly #catalogue: Catalogue;
  readonly #queries: readonly BlockingQuery[];
  readonly #queue: ReadQueue;
  readonly #survey: Survey;
  readonly #ending = new AbortController();
  /** What fails, by what is read. */
  readonly #failing = new Map<string, string>();
  /** Service, in lower case, as everywhere but in requests → its name as it is registered. */
  #spellings: ReadonlyMap<string, string> = new Map();
  /** Problems of single services. */
  readonly #problems = new Map<string, string>();
  readonly #answered = new Set<string>();
  /** Names in the last list that cannot be names of hosts. */
  #badNames: readonly string[] = [];
  /** Names in the last list that are not read, because another one differs from them in case only. */
  #otherSpellings: readonly string[] = [];
  /** Raised when reading starts anew: answers from before are not used. */
  #generation = 0;
  #resetAt = Number.NEGATIVE_INFINITY;
  #isSynced = false;
  #settling: Timer | undefined;

  constructor(options: DatacenterOptions, handlers: DatacenterHandlers) {
    const { name, clock, maxRequests, sweepQps, random } = options;
    this.name = name;
    this.#options = options;
    this.#handlers = handlers;
    this.#catalogue = new Catalogue({ ...options, now: clock.now });
    const retryMs = retriesOf(options);
    this.#queue = new ReadQueue({
      clock,
      maxRequests,
      sweepQps,
      retryMs,
      ownRetryMs: (failures) => backoff(failures, FIRST_RETRY_MS, MAX_OWN_RETRY_MS, random),
      read: (service, isSuspect) => this.#readService(service, isSuspect),
      onFailed: (service, error, blame) => this.#noteUnread(service, toCtlError(error), blame),
    });
    this.#survey = new Survey({
      clock,
      retryMs,
      read: () => this.#get('/v1/health/state/any', MAX_LIST_BYTES),
      parse: (answer, use) => this.#readChecks(answer, use),
      onChanged: (names) => this.#queue.add(names.filter((each) => this.#catalogue.has(each))),
      onOutcome: (failure) => this.#note('the list of checks', failure),
    });
    this.#queries = [
      this.#follow('/v1/catalog/services', NAMES_GAP_MS, (answer) => this.#takeNames(answer)),
      this.#follow('/v1/health/state/critical', STATES_GAP_MS, (answer) => this.#takeStates('critical', answer)),
      this.#follow('/v1/health/state/warning', STATES_GAP_MS, (answer) => this.#takeStates('warning', answer)),
    ];
  }

  start(): void {
    for (const query of this.#queries) query.start();
  }

  /** @param name in lower case */
  instancesOf(name: string): readonly Instance[] {
    return this.#catalogue.instancesOf(name);
  }

  /** Problems of single services, by name, and of the list of services (`''`). */
  problems(): ReadonlyMap<string, string> {
    const problems = new Map(this.#problems);
    const [example, { length }] = [this.#badNames[0], this.#badNames];
    const beyond = this.#catalogue.beyondServices;
    const about = [
      ...(example === undefined
        ? []
        : [`expected names of services that are DNS labels, got ${length} others such as ${example}`]),
      ...(beyond === 0
        ? []
        : [
            `expected at most ${this.#options.maxServices} services, got ${beyond} more (CTL_EXTREGISTRY_MAX_SERVICES)`,
          ]),
    ];
    if (about.length > 0) problems.set('', about.join('; '));
    for (const name of this.#otherSpellings) {
      const read = JSON.stringify(this.#spellings.get(name.toLowerCase()));
      problems.set(name, `expected names of services that differ in more than case; ${read} is read instead`);
    }
    return problems;
  }

  /** Services that stay although the registry no longer has all of them. */
  held(): { readonly services: number; readonly until: number } | undefined {
    const until = this.#catalogue.heldUntil;
    return until === undefined ? undefined : { services: this.#catalogue.held, until };
  }

  async close(): Promise<void> {
    this.#ending.abort();
    this.#settling?.cancel();
    this.#survey.close();
    await Promise.all([this.#queue.close(), ...this.#queries.map((query) => query.close())]);
  }

  #follow(path: string, gapMs: number, take: BlockingQueryOptions['take']): BlockingQuery {
    const { client, consistency, waitMs, timeoutMs, clock, random } = this.#options;
    const retryMs = retriesOf(this.#options);
    const settings = { client, consistency, waitMs, timeoutMs, clock, random, retryMs, query: this.#query() };
    return new BlockingQuery({
      ...settings,
      path,
      gapMs,
      maxBytes: MAX_LIST_BYTES,
      take: async (answer) => {
        await take(answer);
        this.#answered.add(path);
        this.#checkSynced();
      },
      onReset: () => this.#reset(),
      onLost: () => {
        for (const query of this.#queries) query.askAnew();
      },
      onOutcome: (failure) => this.#note(path, failure),
    });
  }

  #query(): Record<string, string> {
    return { dc: this.name };
  }

  #get(path: string, maxBytes: number, staysAtServer = false): Promise<Answer> {
    const { client, consistency, timeoutMs } = this.#options;
    const ask: Ask = { path, query: this.#query(), timeoutMs, maxBytes, consistency, signal: this.#ending.signal };
    return client.get({ ...ask, staysAtServer });
  }

  async #takeNames(answer: Answer): Promise<void> {
    const generation = this.#generation;
    const answeredAt = this.#options.clock.now();
    const listed = new Map<string, string>();
    const spellings = new Map<string, string>();
    const [bad, others]: [string[], string[]] = [[], []];
    await readEntries(answer.body, this.#options.turns, (name, tags) => {
      if (!isServiceName(name)) {
        bad.push(JSON.stringify(name.slice(0, 80)));
        return;
      }
      const key = name.toLowerCase();
      // Of several, the last one in the order of Unicode is read, in whatever order they come: that in lower case.
      const [skipped = name, last = name] = [spellings.get(key) ?? name, name].toSorted();
      if (skipped !== last) others.push(skipped);
      if (last !== name) return;
      spellings.set(key, name);
      listed.set(key, tagsSignature(name, tags));
    });
    if (generation !== this.#generation) return;
    this.#badNames = bad;
    this.#otherSpellings = others;
    this.#spellings = spellings;
    const consequences = this.#catalogue.takeNames(listed);
    this.#queue.moved(answer.index, [...listed.keys()], answeredAt);
    this.#survey.moved(answer.index, answeredAt);
    for (const name of this.#problems.keys()) if (!this.#catalogue.has(name)) this.#problems.delete(name);
    this.#act(consequences);
    this.#handlers.changed([]);
  }

  async #takeStates(state: 'critical' | 'warning', answer: Answer): Promise<void> {
    const generation = this.#generation;
    const checks: Check[] = [];
    await this.#readChecks(answer, (check) => void (check.status === state && checks.push(check)));
    if (generation === this.#generation) this.#act(this.#catalogue.takeStates(state, checks, answer.index));
  }

  async #readChecks({ body }: Answer, use: (check: Check) => void): Promise<void> {
    await readElements(body, this.#options.turns, (value) => {
      const check = checkOf(value);
      if (check !== undefined) use(check);
    });
  }

  /** Returns from when on the answer is current. Rejects when the service has to be read again. */
  async #readService(name: string, isSuspect: boolean): Promise<number> {
    const generation = this.#generation;
    try {
      const written = this.#spellings.get(name) ?? name;
      const answer = await this.#get(`/v1/health/service/${encodeURIComponent(written)}`, MAX_SERVICE_BYTES, isSuspect);
      const registrations: Registration[] = [];
      let tooLong = 0;
      await readElements(answer.body, this.#options.turns, (value) => {
        const registration = registrationOf(value);
        if (registration === 'too long') tooLong++;
        else if (registration !== undefined) registrations.push(registration);
      });
      if (generation !== this.#generation) throw new CtlError('unavailable', 'it was read before the index went back');
      const consequences = this.#catalogue.takeService(name, registrations, answer.index);
      const isTaken = typeof consequences === 'object';
      this.#noteService(name, isTaken ? ignored(tooLong) : tooMuch(consequences, this.#options));
      if (isTaken) this.#act(consequences);
      this.#note('services', undefined);
      this.#checkSynced();
      return answer.asOf;
    } catch (error) {
      const failure = toCtlError(error);
      if (this.#ending.signal.aborted || failure.code !== 'resource_exhausted') throw failure;
      // A problem of this service only, which is read again when something changes.
      this.#skip(name, failure);
      return this.#options.clock.now();
    }
  }

  #noteUnread(name: string, failure: CtlError, blame: Blame): void {
    if (this.#ending.signal.aborted) return;
    if (blame === 'service') this.#skip(name, failure);
    else if (blame === 'registry') this.#note('services', failure);
  }

  /** The service cannot be read; what was read before stays in force, and the others do not wait for it. */
  #skip(name: string, failure: CtlError): void {
    if (!this.#catalogue.has(name)) return;
    this.#noteService(name, failure.oneLine());
    this.#catalogue.skip(name);
    this.#checkSynced();
  }

  #noteService(name: string, problem: string | undefined): void {
    if (this.#problems.get(name) === problem) return;
    if (problem === undefined) this.#problems.delete(name);
    else this.#problems.set(name, problem);
    this.#handlers.changed([name]);
  }

  #act({ toRead, changed }: Consequences): void {
    this.#queue.add(toRead);
    const { changed: gone } = this.#catalogue.settle();
    this.#scheduleSettling();
    const all = [...changed, ...gone];
    if (all.length > 0) this.#handlers.changed(all);
  }

  /** Looks again when the time is over in which nothing is removed. */
  #scheduleSettling(): void {
    const { clock } = this.#options;
    const until = this.#catalogue.heldUntil;
    if (until === undefined || this.#settling !== undefined) return;
    this.#settling = clock.setTimer(Math.max(0, until - clock.now()), () => {
      this.#settling = undefined;
      this.#act({ toRead: [], changed: [] });
    });
  }

  #reset(): boolean {
    const { clock } = this.#options;
    if (clock.now() - this.#resetAt < RESET_MS) return false;
    this.#resetAt = clock.now();
    this.#generation++;
    for (const query of this.#queries) query.reset();
    this.#survey.reset();
    this.#act(this.#catalogue.reset());
    return true;
  }

  #note(what: string, failure: CtlError | undefined): void {
    const reason = failure?.oneLine();
    if (reason === this.#failing.get(what)) return;
    if (reason === undefined) this.#failing.delete(what);
    else this.#failing.set(what, reason);
    const [first] = this.#failing;
    this.#handlers.health(first === undefined ? undefined : `${first[0]}: ${first[1]}`);
  }

  #checkSynced(): void {
    if (this.#isSynced || this.#answered.size < this.#queries.length) return;
    if (!this.#catalogue.unread().next().done) return;
    this.#isSynced = true;
    this.#handlers.synced();
  }
}

function tooMuch(excess: Excess, { maxInstances, maxBytes, maxServiceBytes }: DatacenterOptions): string {
  if (excess === 'maxInstances')
    return `expected at most ${maxInstances} instances of all services (CTL_EXTREGISTRY_MAX_INSTANCES)`;
  return excess === 'maxBytes'
    ? `expected at most ${maxBytes} bytes for the instances of all services (a part of the heap limit)`
    : `expected at most ${maxServiceBytes} bytes for the instances of one service (a part of the heap limit)`;
}

function ignored(tooLong: number): string | undefined {
  if (tooLong === 0) return undefined;
  return `expected nodes, IDs and addresses of at most ${MAX_NAME} characters; ${tooLong} instances are not used`;
}

/** The delay after this many failures in a row, ms: all servers are asked before it grows. */
function retriesOf({ servers, random }: DatacenterOptions): (failures: number) => number {
  return (failures) =>
    failures % servers.length === 0
      ? backoff(failures / servers.length, FIRST_RETRY_MS, MAX_RETRY_MS, random)
      : NEXT_SERVER_MS;
}
