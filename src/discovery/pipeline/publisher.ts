/**
 * Store → snapshot: applies changes to the model and publishes the next snapshot, which the engine pushes.
 *
 * The store drops the changes that it has handed over, so none may get lost here. A change that the model cannot apply
 * is set aside without delaying the others. Each later publication tries it again, until it is applied or replaced.
 */
import { toError } from '../../core/errors.ts';
import type { ChangeSet, Model, ModelStep, ModelUpdate, Snapshot } from '../../model/index.ts';
import type { Publication, PushReason } from '../../push/index.ts';
import type { MeshConfig, MeshNetworks, ResourceChange, ResourceKey } from '../../resources/index.ts';
import type { TakenChanges } from '../../store/index.ts';

/** The changed mesh files. */
interface MeshChange {
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
}

/** Changed files, and when the first change was noticed, monotonic ms. */
export interface MeshUpdate extends MeshChange {
  readonly eventTime: number;
}

/** Two updates as one: with the later values and the earlier time. */
export function mergedUpdate(first: MeshUpdate | undefined, then: MeshUpdate): MeshUpdate {
  return first === undefined ? then : { ...first, ...then, eventTime: Math.min(first.eventTime, then.eventTime) };
}

/** A change that the model cannot apply. The version before stays in force. */
export interface PublishProblem {
  /** The resource, or `mesh configuration`. */
  readonly key: string;
  readonly message: string;
}

/** The part of the model that the publisher uses. */
export interface PublishedModel extends Pick<Model, 'snapshot'> {
  apply(update: ModelUpdate): ModelStep;
  /** A copy of the model, to find out which change it cannot apply. */
  fork(): PublishedModel;
}

export interface PublisherOptions {
  readonly model: PublishedModel;
  readonly now: () => number;
  /** Called with each new snapshot and the time it took to build, milliseconds. */
  readonly onPublication: (publication: Publication, milliseconds: number) => void;
  /** Called once for each change that is set aside. */
  readonly onProblem: (fault: PublishProblem) => void;
}

const NO_REASONS: ReadonlySet<PushReason> = new Set();

/** Attempts to find the changes that cannot be applied. After that the undecided ones are set aside together. */
const MAX_ATTEMPTS = 256;

interface Change extends ResourceChange {
  readonly eventTime: number;
}

function isPresent({ mesh, networks }: MeshChange): boolean {
  return mesh !== undefined || networks !== undefined;
}

/** True when the settings that decide views and generation are equal. */
function isEmpty(changes: ChangeSet): boolean {
  return (
    !changes.everything &&
    changes.services.size === 0 &&
    changes.endpoints.size === 0 &&
    changes.addresses.size === 0 &&
    changes.workloads.size === 0 &&
    changes.configs.size === 0 &&
    changes.scopes.size === 0
  );
}

/** The reasons of a push: the labels of `ctl_push_triggers`. */
function reasonsOf(changes: ChangeSet): ReadonlySet<PushReason> {
  const reasons = new Set<PushReason>();
  if (changes.everything) reasons.add('mesh');
  if (changes.services.size > 0) reasons.add('service');
  if (changes.configs.size > 0) reasons.add('config');
  if (changes.endpoints.size > 0 && reasons.size === 0) reasons.add('endpoint');
  if (reasons.size === 0) reasons.add('proxy');
  return reasons;
}

/** Applies changes to the model and publishes its snapshots. */
export class Publisher {
  readonly #options: PublisherOptions;
  /** Changes that could not be applied. */
  #aside = new Map<ResourceKey, Change>();
  #meshAside: MeshChange = {};

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  get snapshot(): Snapshot {
    return this.#options.model.snapshot;
  }

  /** Publishes changed resources, changed mesh files, or both. Does nothing without a change. */
  publish(taken: TakenChanges, { eventTime: ofMesh, ...mesh }: Partial<MeshUpdate> = {}): void {
    if (taken.changes.length === 0 && !isPresent(mesh)) return;
    const started = this.#options.now();
    const { eventTime: ofResources = started } = taken;
    const ofBatch = Math.min(ofResources, ofMesh ?? ofResources);
    const waiting = new Map(this.#aside);
    for (const change of taken.changes) {
      waiting.delete(change.key);
      waiting.set(change.key, { ...change, eventTime: ofBatch });
    }
    const step = this.#step([...waiting.values()], { ...this.#meshAside, ...mesh });
    if (step === undefined) return;
    const { snapshot, changes, delta, resources } = step;
    // Published even without a reason to push, because the replicas must have the version of the snapshot.
    const reasons = isEmpty(changes) ? NO_REASONS : reasonsOf(changes);
    const eventTime = resources.reduce((oldest, change) => Math.min(oldest, change.eventTime), ofBatch);
    const publication = { snapshot, changes, delta, resources, eventTime, reasons };
    this.#options.onPublication(publication, this.#options.now() - started);
  }

  /** The next snapshot with all changes, or with those that can be applied; undefined without any. */
  #step(waiting: readonly Change[], mesh: MeshChange): (ModelStep & { resources: readonly Change[] }) | undefined {
    const all = this.#attempt(waiting, mesh);
    if (!(all instanceof Error)) {
      this.#aside = new Map();
      this.#meshAside = {};
      return { ...all, resources: waiting };
    }
    const failing = this.#failing(waiting);
    const good = waiting.filter(({ key }) => !failing.has(key));
    const withMesh = this.#attempt(good, mesh);
    const step = withMesh instanceof Error ? this.#attempt(good, {}) : withMesh;
    // Each change can be applied alone, but not all together.
    if (step instanceof Error) for (const { key } of good) failing.set(key, step.message);
    if (withMesh instanceof Error) this.#setMeshAside(mesh, withMesh);
    else this.#meshAside = {};
    this.#setAside(waiting, failing);
    const something = good.length > 0 || (!(withMesh instanceof Error) && isPresent(mesh));
    return step instanceof Error || !something ? undefined : { ...step, resources: good };
  }

  #setAside(waiting: readonly Change[], failing: ReadonlyMap<ResourceKey, string>): void {
    const known = this.#aside;
    this.#aside = new Map(waiting.filter(({ key }) => failing.has(key)).map((change) => [change.key, change]));
    for (const [key, change] of this.#aside) {
      if (known.get(key) !== change) this.#options.onProblem({ key, message: failing.get(key) ?? '' });
    }
  }

  #setMeshAside(mesh: MeshChange, { message }: Error): void {
    const known = mesh.mesh === this.#meshAside.mesh && mesh.networks === this.#meshAside.networks;
    this.#meshAside = mesh;
    if (!known && isPresent(mesh)) this.#options.onProblem({ key: 'mesh configuration', message });
  }

  #attempt(
    changes: readonly ResourceChange[],
    mesh: MeshChange,
    model: PublishedModel = this.#options.model,
  ): ModelStep | Error {
    try {
      return model.apply({ changes, ...mesh });
    } catch (error) {
      return toError(error);
    }
  }

  /** The changes that cannot be applied, and why. Halves the batch, so that one among many is found in few attempts. */
  #failing(changes: readonly Change[]): Map<ResourceKey, string> {
    const found = new Map<ResourceKey, string>();
    const parts: (readonly Change[])[] = [changes];
    for (let attempts = 0; parts.length > 0; attempts++) {
      const part = parts.pop() ?? [];
      const failure = part.length === 0 ? undefined : this.#attempt(part, {}, this.#options.model.fork());
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
