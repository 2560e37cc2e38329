/**
 * Store → snapshot: applies changes to the model and publishes the next snapshot, which the engine pushes.
 *
 * The store drops the changes that it has handed over, so none may get lost here. A change that the model cannot apply
 * is set aside without delaying the others. Each later publication tries it again, until it is applied or replaced.
 *
 * A large change takes the model a second. It is applied in slices, so that proxies and probes are served in between;
 * the snapshot before it is in force until the end.
 */
import { toError } from '../../core/errors.ts';
import { SlicedWork, Slicer } from '../../core/slicer.ts';
import { finish, type Slices } from '../../core/slices.ts';
import type { Model, ModelChange, Snapshot } from '../../model/index.ts';
import {
  type MeshUpdate,
  mergedUpdate,
  NO_EVENT,
  type ResourceChange,
  type ResourceKey,
} from '../../resources/index.ts';

/** A change that the model cannot apply. The previous version stays in force. */
export interface PublishProblem {
  /** The resource, or `mesh configuration`. */
  readonly key: string;
  readonly message: string;
}

/** The part of the model that the publisher uses. */
export interface PublishedModel extends Pick<Model, 'snapshot'> {
  applyInSlices(update: MeshUpdate): Slices<ModelChange>;
  /** A copy of the model, to find out which change it cannot apply. */
  fork(): PublishedModel;
}

export interface PublisherOptions {
  readonly model: PublishedModel;
  readonly now: () => number;
  /** Called once for each change that is set aside. */
  readonly onProblem: (fault: PublishProblem) => void;
}

/** @param milliseconds how long it took to build the snapshot */
export type PublicationListener = (change: ModelChange, milliseconds: number) => void;

/** Attempts to find the changes that cannot be applied. After that the undecided ones are set aside together. */
const MAX_ATTEMPTS = 256;

const NOTHING: MeshUpdate = { changes: [], eventTime: NO_EVENT };

function isEmpty({ changes, ...files }: MeshUpdate): boolean {
  return changes.length === 0 && !hasFiles(files);
}

function hasFiles({ mesh, networks, resolvedHosts }: Omit<MeshUpdate, 'changes' | 'eventTime'>): boolean {
  return mesh !== undefined || networks !== undefined || resolvedHosts !== undefined;
}

/** Applies changes to the model and publishes its snapshots. */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #listeners: PublicationListener[] = [];
  /** The publication in progress. */
  #running: SlicedWork | undefined;
  /** The changes that could not be applied. */
  #aside = NOTHING;
  /** Event times of the changes in it. */
  #asideTimes: ReadonlyMap<ResourceKey, number> = new Map();

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  get snapshot(): Snapshot {
    return this.#options.model.snapshot;
  }

  /** Calls the listener with each snapshot from now on, after those that were added before it. */
  onPublication(listener: PublicationListener): void {
    this.#listeners.push(listener);
  }

  /** Publishes changed resources, changed mesh files, or both, at once. Does nothing without a change. */
  publish(resources: MeshUpdate, files = NOTHING): void {
    this.#running?.finish();
    finish(this.#publication(mergedUpdate(resources, files), new Slicer(this.#options.now)));
  }

  /**
   * Publishes changed resources in slices, or at once when another publication begins meanwhile. Resolves when they are
   * published. Does nothing without a change. After `stopped` nothing is published.
   */
  publishInSlices(resources: MeshUpdate, stopped?: AbortSignal): Promise<void> {
    this.#running?.finish();
    const slicer = new Slicer(this.#options.now);
    this.#running = new SlicedWork(this.#publication(resources, slicer, stopped), slicer);
    return this.#running.ended;
  }

  *#publication(update: MeshUpdate, slicer: Slicer, stopped?: AbortSignal): Slices<void> {
    if (isEmpty(update)) return;
    const eventTime = update.eventTime === NO_EVENT ? this.#options.now() : update.eventTime;
    const change = yield* this.#apply(this.#withAside({ ...update, eventTime }));
    if (change === undefined || stopped?.aborted === true) return;
    const milliseconds = slicer.worked;
    // Without a pause: who acquires a scope now is not told what this publication has changed in it.
    for (const listener of this.#listeners) listener(change, milliseconds);
  }

  /** The update, with what was set aside and is not replaced by it. */
  #withAside(update: MeshUpdate): MeshUpdate {
    if (isEmpty(this.#aside)) return update;
    const replaced = new Set(update.changes.map(({ key }) => key));
    const kept = this.#aside.changes.filter(({ key }) => !replaced.has(key));
    this.#asideTimes = new Map([...this.#asideTimes].filter(([key]) => !replaced.has(key)));
    return { ...this.#aside, ...update, changes: [...kept, ...update.changes] };
  }

  /** The change of the model by the whole update, or by what can be applied of it; undefined where nothing can. */
  *#apply(update: MeshUpdate): Slices<ModelChange | undefined> {
    const whole = yield* this.#attempt(update);
    if (!(whole instanceof Error)) {
      this.#aside = NOTHING;
      this.#asideTimes = new Map();
      return whole;
    }
    const failing = yield* this.#failing(update);
    const { eventTime } = update;
    const changes = update.changes.filter(({ key }) => !failing.has(key));
    const withFiles = yield* this.#attempt({ ...update, changes });
    const change = withFiles instanceof Error ? yield* this.#attempt({ changes, eventTime }) : withFiles;
    // Each change can be applied alone, but not all together.
    if (change instanceof Error) for (const { key } of changes) failing.set(key, change.message);
    this.#setAside(update, failing, withFiles instanceof Error ? withFiles : undefined);
    const something = changes.length > 0 || (!(withFiles instanceof Error) && hasFiles(update));
    return change instanceof Error || !something ? undefined : change;
  }

  /** @param ofFiles why the mesh files cannot be applied; undefined: they were */
  #setAside(
    { changes, eventTime, ...files }: MeshUpdate,
    failing: ReadonlyMap<ResourceKey, string>,
    ofFiles: Error | undefined,
  ): void {
    const { changes: known, mesh, networks, resolvedHosts } = this.#aside;
    const left = changes.filter(({ key }) => failing.has(key));
    this.#aside = { ...(ofFiles && files), changes: left, eventTime: NO_EVENT };
    this.#asideTimes = new Map(left.map(({ key }) => [key, this.#asideTimes.get(key) ?? eventTime]));
    const reported = new Set(known);
    for (const change of left) {
      const { key } = change;
      if (!reported.has(change)) this.#options.onProblem({ key, message: failing.get(key) ?? '' });
    }
    const isKnown = files.mesh === mesh && files.networks === networks && files.resolvedHosts === resolvedHosts;
    if (ofFiles !== undefined && hasFiles(files) && !isKnown)
      this.#options.onProblem({ key: 'mesh configuration', message: ofFiles.message });
  }

  *#attempt(update: MeshUpdate, model: PublishedModel = this.#options.model): Slices<ModelChange | Error> {
    try {
      return yield* model.applyInSlices({ ...update, eventTime: this.#eventTime(update) });
    } catch (error) {
      return toError(error);
    }
  }

  /** Changes that were set aside have their own times. */
  #eventTime({ changes, eventTime }: MeshUpdate): number {
    if (this.#asideTimes.size === 0) return eventTime;
    return changes.reduce((oldest, { key }) => Math.min(oldest, this.#asideTimes.get(key) ?? oldest), eventTime);
  }

  /** The changes that cannot be applied, and why. Halves the batch, so that one among many is found in few attempts. */
  *#failing({ changes, eventTime }: MeshUpdate): Slices<Map<ResourceKey, string>> {
    const found = new Map<ResourceKey, string>();
    const parts: (readonly ResourceChange[])[] = [changes];
    for (let attempts = 0; parts.length > 0; attempts++) {
      const part = parts.pop() ?? [];
      const failure =
        part.length === 0 ? undefined : yield* this.#attempt({ changes: part, eventTime }, this.#options.model.fork());
      if (!(failure instanceof Error)) continue;
      if (part.length === 1 || attempts >= MAX_ATTEMPTS) {
        for (const { key } of part) found.set(key, failure.message);
        continue;
      }
      const middle = part.length >> 1;
      parts.push(part.slice(0, middle), part.slice(middle));
    }
    return found;
  }
}
