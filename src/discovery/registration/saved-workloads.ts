/**
 * The registered workloads of this program, kept in a file for its next run: without an API server nothing else knows
 * them while the program is away, and after its start they would come back one after the other. The file has what they
 * have stated and proved and their health; whether they may still register is decided again when it is read.
 */
import { join } from 'node:path';
import { z } from 'zod';
import type { Clock, Timer } from '../../core/clock.ts';
import { errnoOf, messageOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { preparePrivateFolder, readPrivateFile, replacePrivateFile } from '../../core/private-files.ts';
import type { RegisteringNode } from './entries.ts';

const FILE = 'registered-workloads.json';
const MAX_BYTES = 32 * 1024 * 1024;
/** Workloads of one namespace, and of all: a namespace cannot displace those of others. */
const MAX_OF_NAMESPACE = 5_000;
const MAX_WORKLOADS = 40_000;
/** How long changes are collected before they are written, and the shortest time between two writes, ms. */
const WRITE_DELAY_MS = 1_000;
const WRITE_PERIOD_MS = 5_000;

const IDENTITY = z.strictObject({ trustDomain: z.string(), namespace: z.string(), serviceAccount: z.string() });
const WORKLOAD = z.strictObject({
  namespace: z.string(),
  group: z.string(),
  identity: IDENTITY,
  address: z.string(),
  network: z.string(),
  locality: z.string(),
  serviceAccount: z.string(),
  /** Why it is unhealthy, '' when it is healthy; absent: it has not reported. */
  problem: z.string().optional(),
});
const SAVED = z.strictObject({ version: z.literal(1), workloads: z.array(WORKLOAD) });

export interface SavedWorkload {
  readonly node: RegisteringNode;
  readonly problem: string | undefined;
}

export interface SavedWorkloadsOptions {
  /** CTL_STATE_DIR */
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  /** The workloads that are registered now. */
  readonly current: () => Iterable<SavedWorkload>;
}

export class SavedWorkloads {
  readonly #options: SavedWorkloadsOptions;
  readonly #failures: FailureLog;
  #timer: Timer | undefined;
  /** Monotonic ms of the last write. */
  #writtenAt = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | undefined;
  #complained = false;

  constructor(options: SavedWorkloadsOptions) {
    this.#options = options;
    this.#failures = createFailureLog(
      options.log,
      'registered workloads are not kept, and after a restart requests to them fail until they have connected again',
      'registered workloads are kept over a restart again',
    );
  }

  /** Those of the last run; none when the file cannot be used, which is logged. */
  async load(): Promise<readonly SavedWorkload[]> {
    const { directory, log } = this.#options;
    const path = join(directory, FILE);
    try {
      await preparePrivateFolder(directory);
      const { workloads } = SAVED.parse(JSON.parse(readPrivateFile(path, MAX_BYTES)));
      return workloads.map(({ group, address, problem, ...node }) => ({
        node: { ...node, workloadGroup: group, addresses: [address] },
        problem,
      }));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      const reason = error instanceof z.ZodError || error instanceof SyntaxError ? 'it has another format' : undefined;
      log.warn(`${path}: the registered workloads of the last run cannot be read: ${reason ?? reasonOf(error)}`);
      return [];
    }
  }

  /** Something has changed: the current workloads are written soon. */
  changed(): void {
    const { clock } = this.#options;
    const wait = Math.max(WRITE_DELAY_MS, this.#writtenAt + WRITE_PERIOD_MS - clock.now());
    this.#timer ??= clock.setTimer(wait, () => {
      this.#timer = undefined;
      void this.#write();
    });
  }

  /** Writes what has changed last. */
  async close(): Promise<void> {
    await this.#writing;
    if (this.#timer === undefined) return;
    this.#timer.cancel();
    this.#timer = undefined;
    await this.#write();
  }

  #write(): Promise<void> {
    this.#writtenAt = this.#options.clock.now();
    this.#writing = (this.#writing ?? Promise.resolve()).then(() => this.#writeNow());
    return this.#writing;
  }

  async #writeNow(): Promise<void> {
    const { directory } = this.#options;
    try {
      await preparePrivateFolder(directory);
      await replacePrivateFile(directory, FILE, JSON.stringify({ version: 1, workloads: this.#rows() }));
      this.#failures.succeeded();
    } catch (error) {
      this.#failures.failed(`${directory}: ${reasonOf(error)}`);
    }
  }

  #rows(): readonly z.infer<typeof WORKLOAD>[] {
    const ofNamespace = new Map<string, number>();
    const rows: z.infer<typeof WORKLOAD>[] = [];
    let left = 0;
    for (const { node, problem } of this.#options.current()) {
      const { namespace, workloadGroup: group, identity, addresses, network, locality, serviceAccount } = node;
      const count = ofNamespace.get(namespace) ?? 0;
      if (identity === undefined) continue;
      if (count >= MAX_OF_NAMESPACE || rows.length >= MAX_WORKLOADS) {
        left++;
        continue;
      }
      ofNamespace.set(namespace, count + 1);
      const [address = ''] = addresses;
      const own = { namespace, group, identity, address, network, locality, serviceAccount };
      rows.push({ ...own, ...(problem === undefined ? {} : { problem }) });
    }
    if (left > 0 && !this.#complained) {
      const most = `${MAX_OF_NAMESPACE} of a namespace and ${MAX_WORKLOADS} in all`;
      this.#options.log.warn(`${left} registered workloads are not kept over a restart: at most ${most} are`);
    }
    this.#complained = left > 0;
    return rows;
  }
}

function reasonOf(error: unknown): string {
  return errnoOf(error) ?? messageOf(error);
}
