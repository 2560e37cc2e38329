/**
 * The workloads that have connected to this replica and name a WorkloadGroup, and their WorkloadEntries. A workload is
 * identified by namespace, group, address and network: streams of the same one share an entry. Each workload is
 * processed by at most one task at a time, with its current state; a failure (such as an API server that is
 * unavailable) is retried with growing delays. Streams never wait for this.
 *
 *   streams ─▶ workloads ─▶ queue ─▶ admission ─▶ storage (API server, or memory)
 */
import { systemClock, type Timer } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { createFailureLog } from '../../core/log.ts';
import { type Outcome, WorkQueue } from '../../core/scheduling/work-queue.ts';
import { reportFailure } from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import type { Snapshot } from '../../model/index.ts';
import type { ResourceChange } from '../../resources/index.ts';
import { type AdmittedEntry, admitWorkload } from './admission.ts';
import {
  DISCONNECTED_AT,
  type EntryStorage,
  REFRESH_MS,
  type RegisteringStream,
  type RegistrationOptions,
} from './entries.ts';
import { clusterEntries } from './entries-cluster.ts';
import { memoryEntries } from './entries-memory.ts';
import { type SavedWorkload, SavedWorkloads } from './saved-workloads.ts';
import { addressOf, keyOf, nameOf, newWorkload, textOf, type Workload } from './workload.ts';
import { WriteLimits } from './write-limits.ts';

const CONCURRENCY = 8;
/** A workload that connects again within this time costs no write. */
const NOTICE_MS = 1000;
/** Interval at which refused workloads are checked again, because the obstacle may be gone. */
const RETRY_MS = 30_000;
/** At the end, for writing that workloads have disconnected. */
const CLOSE_MS = 3000;
/**
 * How much longer than the grace time to wait for workloads of the last run: the longest time after which an Envoy
 * without settings of its own connects again (Envoy's GrpcService.EnvoyGrpc.retry_policy).
 */
const RECONNECT_MS = 30_000;

/** Without a cluster, the workloads of the last run are restored first. */
export async function createWorkloadRegistry(options: RegistrationOptions): Promise<WorkloadRegistry> {
  const { settings, cluster, apply, snapshot } = options;
  if (cluster !== undefined && settings.configDir === '') {
    const { client, leadership } = cluster;
    return new WorkloadRegistry(options, clusterEntries({ client, leadership, settings, snapshot }));
  }
  const registry = new WorkloadRegistry(options, memoryEntries(apply), settings.stateDir);
  await registry.restore();
  return registry;
}

export class WorkloadRegistry {
  readonly #options: RegistrationOptions;
  readonly #storage: EntryStorage;
  readonly #workloads = new Map<string, Workload>();
  /** Address → the workload that has it or is about to get it. */
  readonly #addresses = new Map<string, Workload>();
  /** `namespace/name` of an entry → its workload. */
  readonly #entries = new Map<string, Workload>();
  readonly #limits = new WriteLimits();
  readonly #queue: WorkQueue;
  readonly #failures = createFailureLog(
    getScope('model'),
    'WorkloadEntries cannot be written',
    'WorkloadEntries can be written again',
  );
  readonly #ending = new AbortController();
  /** Undefined where an API server stores the entries. */
  readonly #saved: SavedWorkloads | undefined;
  #retry: Timer | undefined;

  /** @param stateDir where the workloads are kept for the next run; undefined: they are stored elsewhere */
  constructor(options: RegistrationOptions, storage: EntryStorage, stateDir?: string) {
    this.#options = options;
    this.#storage = storage;
    const current = () => this.#registered();
    if (stateDir !== undefined)
      this.#saved = new SavedWorkloads({ directory: stateDir, clock: systemClock, log: getScope('model'), current });
    const work = (key: string): Promise<Outcome> => this.#work(key);
    this.#queue = new WorkQueue({ work, concurrency: CONCURRENCY, clock: systemClock, random: Math.random });
    this.#retryLater();
  }

  opened(stream: RegisteringStream): void {
    const key = keyOf(stream);
    const workload = this.#workloads.get(key) ?? newWorkload(key, stream, this.#options.settings.workloadEntryGraceMs);
    this.#workloads.set(key, workload);
    // A report is about the application, not about the stream on which it arrived.
    stream.problem ??= workload.stream.problem;
    workload.streams.add(stream);
    workload.stream = stream;
    workload.disconnectedAt = undefined;
    workload.graceMs = this.#options.settings.workloadEntryGraceMs;
    workload.timer?.cancel();
    workload.timer = undefined;
    this.#queue.add(key);
  }

  /**
   * Registers the workloads of the last run that may still register, with their last health, until they connect or the
   * grace time has passed.
   */
  async restore(): Promise<void> {
    const snapshot = this.#options.snapshot();
    const { workloadEntryGraceMs } = this.#options.settings;
    const saved = (await this.#saved?.load()) ?? [];
    if (saved.length === 0) return;
    let restored = 0;
    for (const { node, problem } of saved) {
      const stream = { node, connectedAt: Date.now(), problem };
      const workload = newWorkload(keyOf(stream), stream, workloadEntryGraceMs + RECONNECT_MS);
      const admission = admitWorkload(node, node.workloadGroup, snapshot);
      if ('refused' in admission || this.#addresses.has(addressOf(admission.entry))) continue;
      this.#workloads.set(workload.key, workload);
      this.#keep(workload, admission.entry);
      await this.#connect(workload, admission.entry);
      workload.disconnectedAt = Date.now();
      this.#wake(workload, workload.graceMs);
      restored++;
    }
    const others = restored === saved.length ? '' : `; ${saved.length - restored} no longer match their groups`;
    getScope('model').info(`${restored} registered workloads of the last run are kept until they connect${others}`);
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
    if (!this.#isKept()) this.#queue.add(workload.key);
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
    await this.#saved?.close();
    const deadline = Date.now() + CLOSE_MS;
    for (const { entry, written, disconnectedAt } of this.#workloads.values()) {
      if (entry === undefined || written === undefined || Date.now() > deadline) continue;
      await this.#storage.disconnected(entry, disconnectedAt ?? Date.now()).catch(() => undefined);
    }
    await this.#storage.close();
  }

  #again(workload: Workload): void {
    workload.written = undefined;
    workload.isOutdated = true;
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
    if (workload === undefined) return 'done';
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
    const { node } = workload.stream;
    const admission = admitWorkload(node, node.workloadGroup, snapshot, workload.entry?.name);
    if ('refused' in admission) return await this.#refuse(workload, admission.refused);
    const { entry } = admission;
    const other = this.#addresses.get(addressOf(entry));
    if (other !== undefined && other !== workload) {
      return await this.#refuse(workload, `${entry.spec.address} is the address of workload ${other.key}`);
    }
    if (workload.written?.text === textOf(workload, entry) && workload.entry !== undefined) return 0;
    const wait = this.#limits.waitForTurn(workload.turns, `${node.namespace}/${node.serviceAccount}`);
    if (wait > 0) return wait;
    // The network of its group has changed.
    if (workload.entry !== undefined && workload.entry.name !== entry.name)
      await this.#remove(workload, workload.entry);
    this.#keep(workload, entry);
    await this.#write();
    return await this.#connect(workload, entry);
  }

  async #connect(workload: Workload, entry: AdmittedEntry): Promise<number> {
    const problem = entry.probed ? workload.stream.problem : undefined;
    const text = textOf(workload, entry);
    workload.isOutdated = false;
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
    // Spread over time, so that workloads that connected at the same time do not delay reports of health each time.
    const refreshAt = systemClock.now() + REFRESH_MS * (0.75 + Math.random() / 4);
    workload.written = workload.isOutdated ? undefined : { text, refreshAt };
    this.#saved?.changed();
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
    this.#saved?.changed();
  }

  async #release(workload: Workload): Promise<number> {
    const { entry, disconnectedAt = Date.now(), graceMs } = workload;
    if (this.#isKept()) return 0;
    const elapsed = Date.now() - disconnectedAt;
    if (entry === undefined || elapsed >= graceMs) {
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
    if (elapsed < NOTICE_MS && NOTICE_MS < graceMs) this.#wake(workload, NOTICE_MS - elapsed);
    else {
      if (workload.written !== undefined) {
        await this.#write();
        workload.written = undefined;
        await this.#storage.disconnected(entry, disconnectedAt);
        this.#failures.succeeded();
      }
      this.#wake(workload, graceMs - elapsed);
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
      getScope('model').info(
        `workload ${workload.key} has disconnected: WorkloadEntry ${nameOf(workload.entry)} is removed`,
      );
    }
    this.#drop(workload);
    this.#workloads.delete(workload.key);
    this.#saved?.changed();
  }

  /** Whether the current registrations stay for the next run, because the program is about to end its streams. */
  #isKept(): boolean {
    return this.#saved !== undefined && this.#options.stopping.aborted;
  }

  *#registered(): Iterable<SavedWorkload> {
    for (const { announced, stream } of this.#workloads.values())
      if (announced) yield { node: stream.node, problem: stream.problem };
  }

  /** Waits for the permission to write once. */
  #write(): Promise<void> {
    return this.#limits.write(this.#ending.signal);
  }
}
