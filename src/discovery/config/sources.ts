/** The running sources: the configured ones, and those that are added, replaced and removed while the program runs. */
import { systemClock } from '../../core/clock.ts';
import { CtlError, InternalError } from '../../core/errors.ts';
import type { SourceStatus } from '../../debug/index.ts';
import {
  applyInSlices,
  createStagedSink,
  replaceInSlices,
  type Source,
  type SourceHealth,
  type SourceIdentity,
  type SourceSink,
} from '../../sources/index.ts';

/** The handlers of what sources do. */
export interface SourceHandlers {
  /** Returns the sink of a source. Called before the source is started. */
  sinkOf(source: SourceIdentity): SourceSink;
  /** A source is removed, with everything that it reported. */
  removed(source: SourceIdentity): void;
}

/** The sources of the program: the configured ones in their order, and those that are added while it runs. */
export interface Sources {
  /**
   * Starts the configured sources. Resolves when each has been read once; it waits for a configuration directory that
   * does not exist yet. Rejects with CtlError when an existing input cannot be read. Called once, before `add` and
   * `remove`.
   */
  open(handlers: SourceHandlers): Promise<void>;
  /**
   * Starts another source. Resolves when it has been read once, or is closed before. A source with the same id
   * continues until then, and is closed when the new one has read everything; a new one that is never read changes
   * nothing. Rejects with CtlError when the source cannot be read, or when it is of another cluster than the source
   * before.
   */
  add(source: Source): Promise<void>;
  /**
   * Closes a source and its replacement, if any, and removes everything that it reported. Does nothing for an unknown
   * id.
   */
  remove(id: string): Promise<void>;
  /** The configured sources. */
  readonly all: readonly SourceIdentity[];
  status(): readonly SourceStatus[];
  close(): Promise<void>;
}

/** A source that runs. */
interface Entry {
  readonly source: Source;
  synced: boolean;
  /** Settles when the source is closed. */
  readonly ended: PromiseWithResolvers<void>;
  /** The source that replaces it once it has been read. */
  next: Entry | undefined;
}

/** Throws InternalError when two sources have the same id. */
export function createSources(configured: readonly Source[]): Sources {
  return new RunningSources(configured);
}

class RunningSources implements Sources {
  readonly all: readonly SourceIdentity[];
  /** The sources in force, by id. */
  readonly #entries: Map<string, Entry>;
  #handlers: SourceHandlers | undefined;
  #closed = false;

  constructor(configured: readonly Source[]) {
    this.all = configured;
    this.#entries = new Map(configured.map((source) => [source.id, entryOf(source)]));
    if (this.#entries.size < configured.length) throw new InternalError('two sources have the same id');
  }

  async open(handlers: SourceHandlers): Promise<void> {
    this.#handlers = handlers;
    await Promise.all([...this.#entries.values()].map((entry) => this.#start(entry)));
  }

  async add(source: Source): Promise<void> {
    const { id, cluster } = source;
    if (this.#closed) return await source.close();
    const [before, entry] = [this.#entries.get(id), entryOf(source)];
    if (before === undefined) {
      this.#entries.set(id, entry);
      return await this.#start(entry);
    }
    if (before.source.cluster !== cluster) {
      const message = `expected source ${id} to be of cluster ${before.source.cluster} as before, got ${cluster}`;
      throw new CtlError('failed_precondition', message);
    }
    await this.#replace(before, entry);
  }

  async remove(id: string): Promise<void> {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.#entries.delete(id);
    this.#handlers?.removed(entry.source);
    await Promise.all([close(entry), close(entry.next)]);
  }

  status(): readonly SourceStatus[] {
    return [...this.#entries.values()].map(({ source, synced, next }) => {
      const { id, cluster } = source;
      return { id, cluster, synced, health: next === undefined ? source.health() : replacedHealth(next.source) };
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const entry of this.#entries.values()) {
      await close(entry);
      await close(entry.next);
    }
  }

  async #start(entry: Entry): Promise<void> {
    if (await read(entry, this.#sinkOf(entry))) entry.synced = true;
  }

  async #replace(before: Entry, next: Entry): Promise<void> {
    const { id } = next.source;
    const superseded = before.next;
    before.next = next;
    await close(superseded);
    // The source may have been removed or replaced during each wait.
    const isWanted = (): boolean => !this.#closed && before.next === next && this.#entries.get(id) === before;
    if (!isWanted()) return;
    const staged = createStagedSink();
    try {
      if (!(await read(next, staged))) return;
    } catch (error) {
      if (isWanted()) before.next = undefined;
      throw error;
    }
    if (!isWanted()) return;
    next.synced = true;
    this.#entries.set(id, next);
    try {
      staged.release(this.#sinkOf(next), systemClock.now());
    } finally {
      await close(before);
    }
  }

  /**
   * Passes on what a source sends while it is in force: closing it takes time, and another source can have its id by
   * then.
   */
  #sinkOf(entry: Entry): SourceSink {
    if (this.#handlers === undefined)
      throw new InternalError('sources cannot be added before the configured ones are opened');
    const sink = this.#handlers.sinkOf(entry.source);
    const isInForce = (): boolean => this.#entries.get(entry.source.id) === entry;
    return {
      apply: (events, seenAt) => isInForce() && sink.apply(events, seenAt),
      applyInSlices: (events, seenAt) => (isInForce() ? applyInSlices(sink, events, seenAt) : undefined),
      refusals: () => (isInForce() ? sink.refusals?.() : undefined) ?? new Map(),
      replace: (list, seenAt) => isInForce() && sink.replace(list, seenAt),
      replaceInSlices: (list, seenAt) => (isInForce() ? replaceInSlices(sink, list, seenAt) : undefined),
      changing: (at) => isInForce() && sink.changing(at),
    };
  }
}

function entryOf(source: Source): Entry {
  return { source, synced: false, ended: Promise.withResolvers(), next: undefined };
}

/** Starts a source. Whether it was read; false when it was closed before. */
async function read({ source, ended }: Entry, sink: SourceSink): Promise<boolean> {
  source.start(sink);
  return await Promise.race([source.synced.then(() => true), ended.promise.then(() => false)]);
}

async function close(entry: Entry | undefined): Promise<void> {
  entry?.ended.resolve();
  await entry?.source.close();
}

/** The health of a source while its replacement is not in force yet. */
function replacedHealth(next: Source): SourceHealth {
  const health = next.health();
  const why = health.ok ? 'it is being read' : health.reason;
  return { ok: false, reason: `its replacement is not in force yet: ${why}` };
}
