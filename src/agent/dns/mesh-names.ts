/** The names of the mesh as the control plane sends them: in one name table, or in pieces. */
import { CtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { MergedNames, type NameEntries, type NameTable } from '../../dns/index.ts';
import { istio } from '../../protobuf/agent/index.ts';
import type { OwnChanges } from '../xds-proxy/index.ts';

/**
 * How long the agent waits for the first names. They arrive within a second of the certificate; without a control plane
 * the workload still needs the names outside the mesh.
 */
const PATIENCE_MS = 5_000;

/** The latest names: they stay in force while there is no control plane. */
export class MeshNames {
  readonly #log: Log;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #table = new MergedNames();
  /** The accepted pieces. */
  #pieces: ReadonlySet<string> = new Set();
  /** Accepted changes that are not in the table yet. */
  #waiting: Waiting | undefined;
  #updating: Promise<void> | undefined;
  #known = false;

  /** @param now monotonic milliseconds */
  constructor(log: Log, now: () => number) {
    this.#log = log;
    this.#now = now;
    this.#startedAt = now();
  }

  get table(): NameTable {
    return this.#table;
  }

  /** Whether the first names are waited for. */
  awaited(): boolean {
    return !this.#known && this.#now() - this.#startedAt < PATIENCE_MS;
  }

  /**
   * Throws CtlError invalid_argument for a response with a table that is not readable, or that leaves none; the names
   * stay as they are. A response that changes nothing is accepted.
   */
  receive({ set, removed, whole, version }: OwnChanges): void {
    const pieces = new Set(whole ? [] : this.#pieces);
    for (const name of removed) pieces.delete(name);
    for (const name of set.keys()) pieces.add(name);
    if (pieces.size === 0) throw new CtlError('invalid_argument', 'expected a name table, got none');
    const waiting = new Waiting(version, this.#waiting);
    if (whole) waiting.setWhole();
    for (const name of removed) waiting.remove(name);
    for (const [name, message] of set) waiting.set.set(name, readNames(message));
    this.#pieces = pieces;
    this.#waiting = waiting;
    this.#updating ??= this.#update();
  }

  /** Resolves when the table has all accepted names. */
  async settled(): Promise<void> {
    await this.#updating;
  }

  async #update(): Promise<void> {
    for (let next = this.#waiting; next !== undefined; next = this.#waiting) {
      this.#waiting = undefined;
      await this.#table.update(next);
      const { size: names, invalid } = this.#table;
      const fields = { names, invalid, version: next.version };
      if (this.#known) this.#log.debug('the names of the mesh have changed', fields);
      else this.#log.info('the names of the mesh are known', fields);
      this.#known = true;
    }
    this.#updating = undefined;
  }
}

/** Changes of the table, merged with others that wait. */
class Waiting {
  readonly version: string;
  readonly set: Map<string, NameEntries>;
  readonly removed: Set<string>;
  whole: boolean;

  constructor(version: string, earlier: Waiting | undefined) {
    this.version = version;
    this.set = new Map(earlier?.set);
    this.removed = new Set(earlier?.removed);
    this.whole = earlier?.whole === true;
  }

  setWhole(): void {
    this.whole = true;
    this.set.clear();
    this.removed.clear();
  }

  remove(name: string): void {
    this.set.delete(name);
    this.removed.add(name);
  }
}

/**
 * The names of an encoded `NameTable` (proto/istio/networking/nds/v1/nds.proto). Throws CtlError invalid_argument for
 * another message.
 */
export function readNames(message: Uint8Array): NameEntries {
  try {
    return Object.entries(istio.networking.nds.v1.NameTable.decode(message).table);
  } catch (error) {
    throw new CtlError('invalid_argument', 'the name table is not readable', {}, error);
  }
}
