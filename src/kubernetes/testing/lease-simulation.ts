/**
 * A simulated API server with one Lease, and replicas that elect a leader by it. Requests and answers take the time
 * that a test gives them, or are lost; each replica has a clock of its own speed, and can be stopped and continued as a
 * process can. Time passes only when a test lets it.
 */
import type { Clock } from '../../core/clock.ts';
import { ApiError, ConnectionError } from '../api-error.ts';
import { LeaderElection } from '../leader-election/leader-election.ts';
import type { Lease, LeaseAccess, LeaseSpec } from '../leader-election/lease.ts';

/** As the requests of a real access to a Lease. */
const REQUEST_TIMEOUT_MS = 4000;
/** Rounds of promise callbacks after an event; more than the longest chain of them. */
const ROUNDS = 40;

/** What happens to one request. */
export interface Transport {
  /** From the replica to the server, ms; undefined: it is lost. */
  readonly request: number | undefined;
  /** From the server to the replica, ms; undefined: it is lost. */
  readonly answer: number | undefined;
  /** The server answers with an error of its own, and does nothing. */
  readonly fails: boolean;
}

export interface Network {
  transport(): Transport;
  /** Delay of one event of a watch, ms; undefined: the event is lost. */
  event(): number | undefined;
  random(): number;
}

/** A network that takes 5 ms each way. */
export const GOOD_NETWORK: Network = {
  transport: () => ({ request: 5, answer: 5, fails: false }),
  event: () => 5,
  random: () => 0.5,
};

export interface Replica {
  readonly election: LeaderElection;
  readonly lines: readonly string[];
  /** Whether its task runs and has not been ended. */
  readonly isWorking: boolean;
  /** Whether it was killed. */
  readonly isDead: boolean;
  /** Stops the process, as SIGSTOP does. */
  pause(): void;
  resume(): void;
  /** Ends the process without notice, as SIGKILL does. */
  kill(): void;
}

interface Scheduled {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

export interface ReplicaOptions {
  readonly identity: string;
  /** How fast its clock runs. Default 1. */
  readonly rate?: number;
  readonly lead?: (signal: AbortSignal) => Promise<void> | void;
}

export class LeaseSimulation {
  network: Network = GOOD_NETWORK;
  readonly replicas: Replica[] = [];
  /** The answer to requests that create the Lease. */
  refuseCreate: ApiError | undefined;
  readonly #watchers = new Set<(lease: Lease | undefined) => void>();
  #now = 0;
  #order = 0;
  #version = 0;
  #events: Scheduled[] = [];
  #lease: Lease | undefined;
  /** Writes that the server has accepted. */
  writes = 0;

  get lease(): Lease | undefined {
    return this.#lease;
  }

  /** Replaces the Lease, as a person does; undefined: deletes it. */
  edit(change: Partial<LeaseSpec> | undefined): void {
    if (this.#lease === undefined) return;
    this.#store(change === undefined ? undefined : { ...this.#lease.spec, ...change });
  }

  /** Lets time pass. `check` is called after everything that happens. */
  async advance(ms: number, check: () => void = () => {}): Promise<void> {
    const until = this.#now + ms;
    await settle();
    for (;;) {
      const [next] = this.#events.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at || a.order - b.order);
      if (next === undefined) break;
      this.#events = this.#events.filter((event) => event !== next);
      this.#now = Math.max(this.#now, next.at);
      next.run();
      check();
      await settle();
      check();
    }
    this.#now = until;
  }

  start({ identity, rate = 1, lead = () => {} }: ReplicaOptions): Replica {
    const lines: string[] = [];
    const note = (message: string): void => void lines.push(message);
    let state: 'running' | 'paused' | 'killed' = 'running';
    let waiting: (() => void)[] = [];
    let term: AbortSignal | undefined;
    /** Runs in the process: later when it is stopped, never when it was killed. */
    const inside = (run: () => void) => (): void => {
      if (state === 'running') run();
      else if (state === 'paused') waiting.push(run);
    };
    const clock: Clock = {
      now: () => 1e6 + this.#now * rate,
      setTimer: (ms, run) => ({ cancel: this.#schedule(ms / rate, inside(run)) }),
    };
    const election = new LeaderElection({
      lease: this.#access(inside, () => state === 'running'),
      identity,
      clock,
      random: () => this.network.random(),
      now: () => 1_700_000_000_000 + this.#now,
      log: { debug: () => {}, info: note, warn: note, error: note },
      lead: (signal) => {
        term = signal;
        return lead(signal);
      },
    });
    election.start();
    const replica: Replica = {
      election,
      lines,
      get isWorking() {
        return state !== 'killed' && term?.aborted === false;
      },
      get isDead() {
        return state === 'killed';
      },
      pause: () => {
        if (state === 'running') state = 'paused';
      },
      resume: () => {
        if (state !== 'paused') return;
        state = 'running';
        // In any order: timers do not run before what has arrived.
        const all = waiting.splice(0).sort(() => this.network.random() - 0.5);
        waiting = [];
        for (const run of all) this.#schedule(0, inside(run));
      },
      kill: () => {
        state = 'killed';
      },
    };
    this.replicas.push(replica);
    return replica;
  }

  #access(inside: (run: () => void) => () => void, isRunning: () => boolean): LeaseAccess {
    const call = <T>(serve: () => T): Promise<T> => {
      const { promise, resolve, reject } = Promise.withResolvers<T>();
      // The code of a stopped process makes no requests: it does not run.
      const { request, answer, fails } = this.network.transport();
      const later = (ms: number, run: () => void): void => void this.#schedule(ms, run);
      later(
        REQUEST_TIMEOUT_MS,
        inside(() => reject(new ConnectionError('no response within 4 s', false))),
      );
      if (request === undefined || !isRunning()) return promise;
      later(request, () => {
        let settleCall: () => void;
        try {
          if (fails) throw new ApiError({ code: 500, reason: 'InternalError', message: 'simulated' });
          const result = serve();
          settleCall = () => resolve(result);
        } catch (error) {
          settleCall = () => reject(error);
        }
        if (answer !== undefined) later(answer, inside(settleCall));
      });
      return promise;
    };
    return {
      name: 'mesh-system/meshd-test',
      read: () => call(() => this.#lease),
      create: (spec) =>
        call(() => {
          if (this.refuseCreate !== undefined) throw this.refuseCreate;
          if (this.#lease !== undefined) throw new ApiError({ code: 409, reason: 'AlreadyExists', message: '' });
          return this.#store(spec);
        }),
      replace: ({ version }, spec) =>
        call(() => {
          if (this.#lease === undefined) throw new ApiError({ code: 404, reason: 'NotFound', message: '' });
          if (this.#lease.version !== version) throw new ApiError({ code: 409, reason: 'Conflict', message: '' });
          return this.#store(spec);
        }),
      watch: (onLease) => {
        const watcher = (lease: Lease | undefined): void => {
          const delay = this.network.event();
          if (delay === undefined) return;
          this.#schedule(
            delay,
            inside(() => {
              if (this.#watchers.has(watcher)) onLease(lease);
            }),
          );
        };
        this.#watchers.add(watcher);
        watcher(this.#lease);
        return async () => void this.#watchers.delete(watcher);
      },
    };
  }

  #store(spec: LeaseSpec): Lease;
  #store(spec: LeaseSpec | undefined): Lease | undefined;
  #store(spec: LeaseSpec | undefined): Lease | undefined {
    const version = String(++this.#version);
    const object = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'meshd-test' } };
    this.#lease = spec === undefined ? undefined : { version, spec, object };
    this.writes++;
    for (const watcher of this.#watchers) watcher(this.#lease);
    return this.#lease;
  }

  /** Returns the function that cancels it. */
  #schedule(ms: number, run: () => void): () => void {
    const event = { at: this.#now + Math.max(0, ms), order: ++this.#order, run };
    this.#events.push(event);
    return () => {
      this.#events = this.#events.filter((each) => each !== event);
    };
  }
}

async function settle(): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) await undefined;
}
