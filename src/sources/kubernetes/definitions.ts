/**
 * Follows which kinds an API server serves while CustomResourceDefinitions are created and deleted. The metadata of the
 * definitions is watched. After each change, API discovery is read until both agree. If definitions may not be watched,
 * discovery is read at intervals.
 */
import { backoff } from '../../core/backoff.ts';
import type { Timer } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import {
  ApiError,
  type Connection,
  type Following,
  followCollection,
  isLost,
  KubernetesClient,
} from '../../kubernetes/index.ts';
import type { FailureReport } from './failures.ts';
import { readServedTypes, type ServedTypes } from './served-types.ts';
import { DEFINITIONS, type DefinedKinds, isPolicyDefinition } from './types.ts';

/** Delay after a change of definitions, because a chart applies many at once, ms. */
const LOOK_SOON_MS = 100;
/** Interval between two reads of discovery that failed or did not agree with the definitions, ms. */
const RETRY_BASE_MS = 500;
const RETRY_MAX_MS = 30_000;
/** How long the start waits for discovery and the definitions to agree, ms: an invalid definition is never served. */
const AGREE_MS = 10_000;
/**
 * How long a kind must be missing from discovery before it counts as deleted, if definitions may not be watched, ms.
 */
const GONE_MS = 10_000;
/** Number of consecutive "forbidden" responses after which watching is given up. */
const FORBIDDEN_ATTEMPTS = 3;
const NAME = 'CustomResourceDefinition';

export interface DefinitionsOptions {
  readonly connection: Connection;
  /** Interval of reads of discovery where definitions may not be watched, ms; 0: never. */
  readonly resyncMs: number;
  readonly failures: Pick<FailureReport, 'failed' | 'recovered'>;
  readonly kinds: DefinedKinds;
  /**
   * Called with the kinds that the server serves. `isGone`: whether a kind, as `<plural>.<group>`, no longer exists.
   */
  readonly onTypes: (served: ServedTypes, isGone: (name: string) => boolean) => void;
}

export class Definitions {
  readonly #options: DefinitionsOptions;
  readonly #client: KubernetesClient;
  #following: Following | undefined;
  /** Names of the definitions of these kinds; undefined while they cannot be listed. */
  #names: Set<string> | undefined;
  #forbidden = 0;
  #timer: Timer | undefined;
  #looking = false;
  #again = false;
  #failures = 0;
  #firstLookAt: number | undefined;
  #agrees = false;
  /** Kinds of policies that exist and cannot be read. */
  #lacking: ReadonlySet<string> = new Set();
  readonly #missingSince = new Map<string, number>();
  #closed = false;

  constructor(options: DefinitionsOptions) {
    this.#options = options;
    this.#client = new KubernetesClient(options.connection);
  }

  start(): void {
    const { connection, failures, kinds } = this.#options;
    this.#following = followCollection<string>(
      // Only their metadata is read.
      { connection, type: DEFINITIONS, retain: (object) => object, fromRetained: true },
      {
        convert: ({ metadata }) => (kinds.isDefinition(metadata.name) ? metadata.name : undefined),
        onList: (names) => {
          this.#names = new Set(names);
          this.#forbidden = 0;
          this.lookSoon();
        },
        onChanges: (changes) => {
          for (const change of changes) {
            if (change.type === 'deleted') this.#names?.delete(change.object.metadata.name);
            else this.#names?.add(change.item);
          }
          const names = changes.map((change) => (change.type === 'set' ? change.item : change.object.metadata.name));
          if (names.some(kinds.isDefinition)) this.lookSoon();
        },
        onFailure: (error, verb) => this.#failed(error, verb),
        onRecovered: () => failures.recovered(NAME),
      },
    );
    void this.#look();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#following?.close();
  }

  /** Whether the kinds of the server are known, or waiting for them has timed out. */
  get isSettled(): boolean {
    const { clock } = this.#options.connection;
    if (this.#firstLookAt === undefined) return false;
    if (this.#agrees) return this.#lacking.size === 0;
    return this.#names !== undefined && this.#lacking.size === 0 && clock.now() - this.#firstLookAt >= AGREE_MS;
  }

  /** Something may have changed. */
  lookSoon(): void {
    this.#schedule(LOOK_SOON_MS);
  }

  #schedule(ms: number): void {
    this.#timer?.cancel();
    if (this.#closed) return;
    this.#timer = this.#options.connection.clock.setTimer(ms, () => void this.#look());
  }

  async #look(): Promise<void> {
    this.#again = this.#looking;
    if (this.#looking || this.#closed) return;
    this.#looking = true;
    const { failures } = this.#options;
    try {
      const served = await readServedTypes(this.#client, this.#options.kinds);
      failures.recovered('API discovery');
      if (!this.#closed) this.#looked(served);
    } catch (error) {
      if (!this.#closed) {
        this.#retry();
        const reason = error instanceof CtlError ? error.oneLine() : String(error);
        if (!isLost(error))
          failures.failed(
            'API discovery',
            `cannot be read: ${reason}; until it can be read, kinds are neither added nor removed`,
          );
      }
    } finally {
      this.#looking = false;
      if (this.#again) this.lookSoon();
    }
  }

  #looked(served: ServedTypes): void {
    const { connection, resyncMs, onTypes } = this.#options;
    const now = connection.clock.now();
    this.#firstLookAt ??= now;
    const names = this.#names;
    for (const name of this.#missingSince.keys()) if (served.names.has(name)) this.#missingSince.delete(name);
    this.#agrees =
      names === undefined
        ? this.#forbidden >= FORBIDDEN_ATTEMPTS
        : names.size === served.names.size && [...names].every((name) => served.names.has(name));
    this.#noteLacking(served, names ?? new Set());
    let undecided = false;
    onTypes(served, (name) => {
      if (served.names.has(name)) return false;
      if (names !== undefined) return !names.has(name);
      const since = this.#missingSince.get(name) ?? now;
      this.#missingSince.set(name, since);
      undecided ||= now - since < GONE_MS;
      return now - since >= GONE_MS;
    });
    if (!this.#agrees || undecided) this.#retry();
    else {
      this.#failures = 0;
      if (names === undefined && resyncMs > 0) this.#schedule(resyncMs);
    }
  }

  /** Reports kinds of policies that are defined and cannot be read: workloads would be less protected without them. */
  #noteLacking(served: ServedTypes, defined: ReadonlySet<string>): void {
    const { failures } = this.#options;
    const known = [...new Set([...defined, ...served.names])];
    const lacking = new Set(known.filter((name) => isPolicyDefinition(name) && !served.types.has(name)));
    for (const name of this.#lacking) if (!lacking.has(name)) failures.recovered(name);
    for (const name of lacking) {
      const consequence =
        'its documents that were read before stay in force; after a restart, the program is not ready without it';
      failures.failed(name, `defined, but API discovery lists no version that this program reads; ${consequence}`);
    }
    this.#lacking = lacking;
  }

  #retry(): void {
    this.#failures++;
    this.#schedule(backoff(this.#failures, RETRY_BASE_MS, RETRY_MAX_MS, this.#options.connection.random));
  }

  #failed(error: CtlError, verb: 'list' | 'watch'): void {
    if (isLost(error)) return;
    // A server without definitions returns HTTP 404.
    const forbidden = error instanceof ApiError && (error.status === 403 || error.status === 404);
    this.#forbidden = forbidden ? this.#forbidden + 1 : 0;
    const { failures, resyncMs } = this.#options;
    const instead =
      resyncMs > 0 ? `API discovery is repeated every ${resyncMs / 1000} s instead` : 'new kinds are not noticed';
    const consequence = forbidden ? instead : 'what was read before stays in force';
    failures.failed(NAME, `cannot ${verb}: ${error.oneLine()}; ${consequence}`);
    if (this.#forbidden !== FORBIDDEN_ATTEMPTS) return;
    // The names may be out of date from now on.
    this.#names = undefined;
    this.lookSoon();
  }
}
