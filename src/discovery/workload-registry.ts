/**
 * The workloads that have connected to this replica and name a WorkloadGroup, and their WorkloadEntries. A workload is
 * identified by namespace, group, address and network: streams of the same one share an entry. Each is worked on at
 * most once at a time, from what is known of it then; a failure (an API server that is away) is repeated with growing
 * delays. Streams never wait for this.
 *
 *   streams ─▶ workloads ─▶ queue ─▶ admission ─▶ storage (API server, or memory)
 */
import { sleep, systemClock, type Timer } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import { createFailureLog } from '../core/log.ts';
import { TokenBucket } from '../core/token-bucket.ts';
import { type Outcome, WorkQueue } from '../core/work-queue.ts';
import { reportFailure } from '../gateway-controller/index.ts';
import { getScope } from '../logging/index.ts';
import { addressId, type Snapshot } from '../model/index.ts';
import type { ResourceChange } from '../resources/index.ts';
import { type AdmittedEntry, admitWorkload } from './workload-admission.ts';
import {
  DISCONNECTED_AT,
  type EntryStorage,
  REFRESH_MS,
  type RegisteringStream,
  type RegistrationOptions,
} from './workload-entries.ts';
import { clusterEntries } from './workload-entries-cluster.ts';
import { memoryEntries } from './workload-entries-memory.ts';

export interface RegistryOptions extends RegistrationOptions {
  readonly snapshot: () => Snapshot | undefined;
}

interface Workload {
  readonly key: string;
  readonly streams: Set<RegisteringStream>;
  /** Of the stream that was opened last. */
  stream: RegisteringStream;
  /** Milliseconds since the epoch; undefined while there are streams. */
  disconnectedAt: number | undefined;
  /** Its entry, written or being written. */
  entry: AdmittedEntry | undefined;
  /** What was written, and when it is to be written again (monotonic ms); undefined: the next work writes it. */
  written: { readonly text: string; readonly refreshAt: number } | undefined;
  /** Why it is not registered; undefined when it is. */
  refused: string | undefined;
  timer: Timer | undefined;
  /** Whether the log says that it is registered. */
  announced: boolean;
  /** The health that was written last by this replica; undefined: none. */
  writtenHealth: string | undefined;
  /** Writes of it alone: an application that fails and recovers without end causes pushes to its callers. */
  readonly writes: TokenBucket;
  /** Whether its account's share of writes was taken for its next write, which was delayed until it is available. */
  hasTurn: boolean;
}

/**
 * Writes of all workloads a second, and at once: after a restart of the control plane all workloads connect again, and
 * the API server has other clients.
 */
const WRITES = { rate: 50, burst: 200 };
/** The same of one service account. */
const ACCOUNT_WRITES = { rate: 10, burst: 100 };
/** The same of one workload. */
const WORKLOAD_WRITES = { rate: 0.2, burst: 10 };
/** An account that connects and disconnects without end delays only its own workloads, and those so long. */
const LONGEST_WAIT_MS = 60_000;
/** Accounts whose rate is remembered. */
const MAX_ACCOUNTS = 1000;
const CONCURRENCY = 8;
/** A workload that connects again within this time costs no write. */
const NOTICE_MS = 1000;
/** How often refused workloads are looked at again: what stood in their way may be gone. */
const RETRY_MS = 30_000;
/** At the end, for writing that workloads have disconnected. */
const CLOSE_MS = 3000;

export function createWorkloadRegistry(options: RegistryOptions): WorkloadRegistry {
  const { settings, cluster, apply } = options;
  const storage =
    cluster !== undefined && settings.configDir === ''
      ? clusterEntries({ client: cluster.client, leadership: cluster.leadership, settings, snapshot: options.snapshot })
      : memoryEntries(apply);
  return new WorkloadRegistry(options, storage);
}

export class WorkloadRegistry {
  readonly #options: RegistryOptions;
  readonly #storage: EntryStorage;
  readonly #workloads = new Map<string, Workload>();
  /** Address → the workload that has it, or is to have it. */
  readonly #addresses = new Map<string, Workload>();
  /** `namespace/name` of an entry → its workload. */
  readonly #entries = new Map<string, Workload>();
  readonly #accounts = new Map<string, TokenBucket>();
  readonly #bucket = new TokenBucket({ ...WRITES, now: systemClock.now });
  readonly #queue: WorkQueue;
  readonly #failures = createFailureLog(
    getScope('model'),
    'WorkloadEntries cannot be written',
    'WorkloadEntries are written again',
  );
  readonly #ending = new AbortController();
  #retry: Timer | undefined;

  constructor(options: RegistryOptions, storage: EntryStorage) {
    this.#options = options;
    this.#storage = storage;
    const work = (key: string): Promise<Outcome> => this.#work(key);
    this.#queue = new WorkQueue({ work, concurrency: CONCURRENCY, clock: systemClock, random: Math.random });
    this.#retryLater();
  }

  opened(stream: RegisteringStream): void {
    const key = keyOf(stream);
    const known = this.#workloads.get(key);
    const workload: Workload = known ?? {
      key,
      streams: new Set(),
      stream,
      disconnectedAt: undefined,
      entry: undefined,
      written: undefined,
      refused: undefined,
      timer: undefined,
      announced: false,
      writtenHealth: undefined,
      writes: new TokenBucket({ ...WORKLOAD_WRITES, now: systemClock.now }),
      hasTurn: false,
    };
    this.#workloads.set(key, workload);
    // A report is about the application, not about the stream that it came on.
    stream.problem ??= workload.stream.problem;
    workload.streams.add(stream);
    workload.stream = stream;
    workload.disconnectedAt = undefined;
    workload.timer?.cancel();
    workload.timer = undefined;
    this.#queue.add(key);
  }

  /** The stream has reported the health of its workload. */
  changed(stream: RegisteringStream): void {
    const workload = this.#workloads.get(keyOf(stream));
    if (workload === undefined) return;
    workload.stream.problem = stream.problem;
    this.#queue.add(workload.key);
  }

  ended(stream: RegisteringStream): void {
    const workload = this.#workloads.get(keyOf(stream));
    if (workload === undefined || !workload.streams.delete(stream) || workload.streams.size > 0) return;
    workload.disconnectedAt = Date.now();
    this.#queue.add(workload.key);
  }

  /** A new snapshot with these changes. */
  published(changes: readonly ResourceChange[]): void {
    const groups = new Set<string>();
    for (const { key, after } of changes) {
      if (key.startsWith('WorkloadGroup/')) groups.add(key.slice('WorkloadGroup/'.length));
      else if (key.startsWith('WorkloadEntry/')) {
        const workload = this.#entries.get(key.slice('WorkloadEntry/'.length));
        // Another replica may have written it, and have been the last that this workload connected to by its clock.
        const isLost = after === undefined || after.meta.annotations[DISCONNECTED_AT] !== undefined;
        if (workload !== undefined && workload.streams.size > 0 && isLost) this.#again(workload);
      }
    }
    if (groups.size === 0) return;
    for (const { key, stream } of this.#workloads.values()) {
      if (groups.has(`${stream.node.namespace}/${stream.node.workloadGroup}`)) this.#queue.add(key);
    }
  }

  async close(): Promise<void> {
    this.#retry?.cancel();
    for (const { timer } of this.#workloads.values()) timer?.cancel();
    this.#ending.abort();
    await this.#queue.close();
    const deadline = Date.now() + CLOSE_MS;
    for (const { entry, written, disconnectedAt } of this.#workloads.values()) {
      if (entry === undefined || written === undefined || Date.now() > deadline) continue;
      await this.#storage.disconnected(entry, disconnectedAt ?? Date.now()).catch(() => undefined);
    }
    await this.#storage.close();
  }

  #again(workload: Workload): void {
    workload.written = undefined;
    this.#queue.add(workload.key);
  }

  #retryLater(): void {
    this.#retry = systemClock.setTimer(RETRY_MS, () => {
      for (const workload of this.#workloads.values()) {
        const { refused, written, key, streams } = workload;
        if (refused !== undefined) this.#queue.add(key);
        else if (streams.size > 0 && written !== undefined && systemClock.now() > written.refreshAt) {
          this.#again(workload);
        }
      }
      this.#retryLater();
    });
  }

  async #work(key: string): Promise<Outcome> {
    const workload = this.#workloads.get(key);
    const snapshot = this.#options.snapshot();
    if (workload === undefined || snapshot === undefined) return 'done';
    try {
      const wait = workload.streams.size > 0 ? await this.#register(workload, snapshot) : await this.#release(workload);
      return wait === 0 ? 'done' : wait;
    } catch (error) {
      if (this.#ending.signal.aborted) return 'done';
      reportFailure(this.#failures, error);
      return 'failed';
    }
  }

  /** @returns milliseconds after which to continue; 0: done */
  async #register(workload: Workload, snapshot: Snapshot): Promise<number> {
    const { node, problem } = workload.stream;
    const admission = admitWorkload(node, node.workloadGroup, snapshot, workload.entry?.name);
    if ('refused' in admission) return await this.#refuse(workload, admission.refused);
    const { entry } = admission;
    const other = this.#addresses.get(addressOf(entry));
    if (other !== undefined && other !== workload) {
      return await this.#refuse(workload, `${entry.spec.address} is that of workload ${other.key}`);
    }
    const text = JSON.stringify([entry, entry.probed ? problem : '']);
    if (workload.written?.text === text && workload.entry !== undefined) return 0;
    const wait = this.#waitForTurn(workload);
    if (wait > 0) return wait;
    // The network of its group has changed.
    if (workload.entry !== undefined && workload.entry.name !== entry.name)
      await this.#remove(workload, workload.entry);
    this.#keep(workload, entry);
    await this.#write();
    return await this.#connect(workload, entry, { problem: entry.probed ? problem : undefined, text });
  }

  /** @returns milliseconds until the workload may be written; 0: now */
  #waitForTurn(workload: Workload): number {
    // Its turn comes once: thousands that ask again and again would each be looked at every time.
    if (workload.hasTurn) {
      workload.hasTurn = false;
      return 0;
    }
    const ownWait = workload.writes.take();
    if (ownWait > 0) return ownWait;
    const { namespace, serviceAccount } = workload.stream.node;
    const wait = this.#accountOf(namespace, serviceAccount).spend(1);
    workload.hasTurn = wait > 0;
    return Math.min(wait, LONGEST_WAIT_MS);
  }

  async #connect(
    workload: Workload,
    entry: AdmittedEntry,
    { problem, text }: { readonly problem: string | undefined; readonly text: string },
  ): Promise<number> {
    try {
      const isNews = problem !== workload.writtenHealth;
      await this.#storage.connected(entry, workload.stream.connectedAt, problem, isNews);
    } catch (error) {
      if (!(error instanceof CtlError) || error.code !== 'already_exists') throw error;
      this.#drop(workload);
      return await this.#refuse(workload, error.message);
    }
    this.#failures.succeeded();
    if (!workload.announced)
      getScope('model').info(`workload ${workload.key} is registered as WorkloadEntry ${nameOf(entry)}`);
    workload.announced = true;
    workload.refused = undefined;
    workload.writtenHealth = problem;
    // Spread, so that those that came at the same time do not delay reports of health each time.
    workload.written = { text, refreshAt: systemClock.now() + REFRESH_MS * (0.75 + Math.random() / 4) };
    return 0;
  }

  async #refuse(workload: Workload, reason: string): Promise<number> {
    if (workload.refused !== reason) getScope('model').warn(`workload ${workload.key} is not registered: ${reason}`);
    workload.refused = reason;
    workload.announced = false;
    const { entry } = workload;
    if (entry !== undefined) await this.#remove(workload, entry);
    return 0;
  }

  async #remove(workload: Workload, entry: AdmittedEntry): Promise<void> {
    await this.#write();
    await this.#storage.remove(entry);
    this.#failures.succeeded();
    this.#drop(workload);
    workload.announced = false;
    workload.writtenHealth = undefined;
  }

  async #release(workload: Workload): Promise<number> {
    const { entry, disconnectedAt = Date.now() } = workload;
    const { workloadEntryGraceMs } = this.#options.settings;
    const elapsed = Date.now() - disconnectedAt;
    if (entry === undefined || elapsed >= workloadEntryGraceMs) {
      if (entry !== undefined) {
        await this.#write();
        await this.#storage.remove(entry);
        this.#failures.succeeded();
      }
      // It may have connected again meanwhile.
      if (workload.streams.size > 0) this.#again(workload);
      else this.#forget(workload);
      return 0;
    }
    if (elapsed < NOTICE_MS && NOTICE_MS < workloadEntryGraceMs) this.#wake(workload, NOTICE_MS - elapsed);
    else {
      if (workload.written !== undefined) {
        await this.#write();
        workload.written = undefined;
        await this.#storage.disconnected(entry, disconnectedAt);
        this.#failures.succeeded();
      }
      this.#wake(workload, workloadEntryGraceMs - elapsed);
    }
    return 0;
  }

  #wake(workload: Workload, afterMs: number): void {
    workload.timer?.cancel();
    if (workload.streams.size > 0) this.#queue.add(workload.key);
    else workload.timer = systemClock.setTimer(afterMs, () => this.#queue.add(workload.key));
  }

  #keep(workload: Workload, entry: AdmittedEntry): void {
    this.#drop(workload);
    workload.entry = entry;
    this.#addresses.set(addressOf(entry), workload);
    this.#entries.set(nameOf(entry), workload);
  }

  #drop(workload: Workload): void {
    const { entry } = workload;
    if (entry === undefined) return;
    this.#addresses.delete(addressOf(entry));
    this.#entries.delete(nameOf(entry));
    workload.entry = undefined;
    workload.written = undefined;
  }

  #forget(workload: Workload): void {
    if (workload.entry !== undefined) {
      getScope('model').info(`workload ${workload.key} has left: WorkloadEntry ${nameOf(workload.entry)} is removed`);
    }
    this.#drop(workload);
    this.#workloads.delete(workload.key);
  }

  /** Waits for the permission to write once. */
  async #write(): Promise<void> {
    for (let wait = this.#bucket.take(); wait > 0; wait = this.#bucket.take()) {
      await sleep(systemClock, wait, this.#ending.signal);
      if (this.#ending.signal.aborted) throw new CtlError('unavailable', 'the program is being stopped');
    }
  }

  #accountOf(namespace: string, serviceAccount: string): TokenBucket {
    const account = `${namespace}/${serviceAccount}`;
    const bucket = this.#accounts.get(account) ?? new TokenBucket({ ...ACCOUNT_WRITES, now: systemClock.now });
    // The one that has been used most recently is last.
    this.#accounts.delete(account);
    this.#accounts.set(account, bucket);
    const [oldest] = this.#accounts.keys();
    if (this.#accounts.size > MAX_ACCOUNTS && oldest !== undefined) this.#accounts.delete(oldest);
    return bucket;
  }
}

function keyOf({ node }: RegisteringStream): string {
  const { namespace, workloadGroup, serviceAccount, addresses, network } = node;
  const at = network === '' ? '' : `@${network}`;
  return `${namespace}/${workloadGroup}/${serviceAccount}/${addresses[0] ?? ''}${at}`;
}

function nameOf({ namespace, name }: AdmittedEntry): string {
  return `${namespace}/${name}`;
}

function addressOf({ spec }: AdmittedEntry): string {
  return `${spec.network ?? ''}/${addressId(spec.address) ?? spec.address}`;
}
