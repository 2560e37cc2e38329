/**
 * The registered workloads of this program, kept in a file for its next run: without an API server, they are not stored
 * anywhere else while the program is not running, and after its start they would only return one by one. The file has
 * what they have declared and proved, and their health; whether they may still register is decided again when it is
 * read.
 */
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { z } from 'zod';
import type { Clock, Timer } from '../../core/clock.ts';
import { errnoOf, messageOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { preparePrivateFolder, readPrivateFile, replacePrivateFile } from '../../core/tls/private-files.ts';
import type { RegisteringNode } from './entries.ts';

const FILE = 'registered-workloads.json';
/** Maximum size for the workloads of one namespace and for all: a namespace cannot displace those of others. */
const MAX_OF_NAMESPACE: Size = { workloads: 5_000, bytes: 4 * 1024 * 1024 };
const MAX_IN_ALL: Size = { workloads: 40_000, bytes: 32 * 1024 * 1024 };
/** Workloads that are written in one turn of the event loop. */
const WORKLOADS_PER_TURN = 500;
/** How long changes are collected before they are written, and the shortest time between two writes, ms. */
const WRITE_DELAY_MS = 1_000;
const WRITE_PERIOD_MS = 5_000;

interface Size {
  workloads: number;
  bytes: number;
}

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
      'registered workloads cannot be saved: after a restart, requests to them fail until they reconnect',
      'registered workloads can be saved again',
    );
  }

  /** Returns the workloads of the last run; none when the file cannot be used, which is logged. */
  async load(): Promise<readonly SavedWorkload[]> {
    const { directory, log } = this.#options;
    const path = join(directory, FILE);
    try {
      await preparePrivateFolder(directory);
      const { workloads } = SAVED.parse(JSON.parse(readPrivateFile(path, MAX_IN_ALL.bytes)));
      return workloads.map(({ group, address, problem, ...node }) => ({
        node: { ...node, workloadGroup: group, addresses: [address] },
        problem,
      }));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      const reason =
        error instanceof z.ZodError || error instanceof SyntaxError ? 'it has an unknown format' : undefined;
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
      await replacePrivateFile(directory, FILE, `{"version":1,"workloads":[${await this.#rows()}]}`);
      this.#failures.succeeded();
    } catch (error) {
      this.#failures.failed(`${directory}: ${reasonOf(error)}`);
    }
  }

  /** The current workloads as JSON, separated by commas. */
  async #rows(): Promise<string> {
    const ofNamespaces = new Map<string, Size>();
    // The size of the rest of the file, bytes.
    const inAll = { workloads: 0, bytes: 64 };
    const rows: string[] = [];
    let [left, turn] = [0, 0];
    for (const workload of this.#options.current()) {
      if (++turn % WORKLOADS_PER_TURN === 0) await setImmediate();
      const row = rowOf(workload);
      if (row === undefined) continue;
      const { namespace } = workload.node;
      const ofNamespace = ofNamespaces.get(namespace) ?? { workloads: 0, bytes: 0 };
      ofNamespaces.set(namespace, ofNamespace);
      const bytes = Buffer.byteLength(row) + 1;
      if (!fits(bytes, ofNamespace, MAX_OF_NAMESPACE) || !fits(bytes, inAll, MAX_IN_ALL)) {
        left++;
        continue;
      }
      for (const size of [ofNamespace, inAll]) {
        size.workloads++;
        size.bytes += bytes;
      }
      rows.push(row);
    }
    this.#complain(left);
    return rows.join(',');
  }

  #complain(left: number): void {
    if (left > 0 && !this.#complained) {
      const most = `${shown(MAX_OF_NAMESPACE)} of a namespace and ${shown(MAX_IN_ALL)} in all`;
      this.#options.log.warn(`${left} registered workloads are not saved for a restart: at most ${most} are`);
    }
    this.#complained = left > 0;
  }
}

/** JSON; undefined for a workload without proven identity. */
function rowOf({ node, problem }: SavedWorkload): string | undefined {
  const { namespace, workloadGroup: group, identity, addresses, network, locality, serviceAccount } = node;
  if (identity === undefined) return undefined;
  const [address = ''] = addresses;
  const own = { namespace, group, identity, address, network, locality, serviceAccount };
  return JSON.stringify({ ...own, ...(problem === undefined ? {} : { problem }) } satisfies z.infer<typeof WORKLOAD>);
}

function fits(bytes: number, used: Size, most: Size): boolean {
  return used.workloads < most.workloads && used.bytes + bytes <= most.bytes;
}

function shown({ workloads, bytes }: Size): string {
  return `${workloads} (${bytes} bytes)`;
}

function reasonOf(error: unknown): string {
  return errnoOf(error) ?? messageOf(error);
}
