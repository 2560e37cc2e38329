/**
 * From events to publications: the store takes events, the debounce says when, the model makes the next snapshot, the
 * engine pushes it. This is the main thread's clockwork; each wheel of it is tested by itself in its own room.
 *
 * What the store hands over it forgets, so nothing may get lost here: a change that the model cannot take is set aside,
 * without holding up the others, and goes with each later publication until it is taken or replaced.
 */
import { toError } from '../core/errors.ts';
import type { ChangeSet, Model, ModelStep, ModelUpdate, Snapshot } from '../model/index.ts';
import type { Publication } from '../push/index.ts';
import type { PushReason } from '../push/types.ts';
import type { MeshConfig, MeshNetworks, ResourceChange, ResourceKey } from '../resources/index.ts';
import type { TakenChanges } from '../store/index.ts';

/** The files beside the resources, where they changed. */
interface MeshChange {
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
}

/** Changed files, and when the first change was noticed, monotonic ms. */
export interface MeshUpdate extends MeshChange {
  readonly eventTime: number;
}

/** Two updates as one: the later values, the earlier time. */
export function mergedUpdate(first: MeshUpdate | undefined, then: MeshUpdate): MeshUpdate {
  return first === undefined ? then : { ...first, ...then, eventTime: Math.min(first.eventTime, then.eventTime) };
}

/** Something that the model cannot take; what was in force before stays. */
export interface PublishFault {
  /** The resource, or `mesh configuration`. */
  readonly key: string;
  readonly message: string;
}

/** What the publisher needs of a model. */
export interface PublishedModel extends Pick<Model, 'snapshot'> {
  apply(update: ModelUpdate): ModelStep;
  /** Another that stands where this one does, to find out what cannot be taken. */
  fork(): PublishedModel;
}

export interface PublisherOptions {
  readonly model: PublishedModel;
  readonly now: () => number;
  /** Told of each snapshot that has something new, and of its cost in milliseconds. */
  readonly onPublication: (publication: Publication, milliseconds: number) => void;
  /** Told once of each change that is set aside. */
  readonly onFault: (fault: PublishFault) => void;
}

const NO_REASONS: ReadonlySet<PushReason> = new Set();

/** Attempts to find out which changes of a batch are at fault; then those in doubt are set aside together. */
const MAX_ATTEMPTS = 256;

interface Change extends ResourceChange {
  readonly eventTime: number;
}

function isPresent({ mesh, networks }: MeshChange): boolean {
  return mesh !== undefined || networks !== undefined;
}

/** True when nothing differs that decides which views proxies have or what is generated for them. */
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

/** Why this change set pushes: the labels of `ctl_push_triggers`. */
function reasonsOf(changes: ChangeSet): ReadonlySet<PushReason> {
  const reasons = new Set<PushReason>();
  if (changes.everything) reasons.add('mesh');
  if (changes.services.size > 0) reasons.add('service');
  if (changes.configs.size > 0) reasons.add('config');
  if (changes.endpoints.size > 0 && reasons.size === 0) reasons.add('endpoint');
  if (reasons.size === 0) reasons.add('proxy');
  return reasons;
}

/** Has the model make the next snapshot. */
export class Publisher {
  readonly #options: PublisherOptions;
  /** Changes that could not be taken. */
  #aside = new Map<ResourceKey, Change>();
  #meshAside: MeshChange = {};

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  get snapshot(): Snapshot {
    return this.#options.model.snapshot;
  }

  /** Publishes changed resources, a changed mesh configuration, or both. Nothing leaves when nothing is to be done. */
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
    // Replicas have to follow even when proxies have nothing to gain: they stand at the version of their snapshot.
    const reasons = isEmpty(changes) ? NO_REASONS : reasonsOf(changes);
    const eventTime = resources.reduce((oldest, change) => Math.min(oldest, change.eventTime), ofBatch);
    const publication = { snapshot, changes, delta, resources, eventTime, reasons };
    this.#options.onPublication(publication, this.#options.now() - started);
  }

  /** The next snapshot by all of the changes, or by those that can be taken; undefined for none. */
  #step(waiting: readonly Change[], mesh: MeshChange): (ModelStep & { resources: readonly Change[] }) | undefined {
    const all = this.#attempt(waiting, mesh);
    if (!(all instanceof Error)) {
      this.#aside = new Map();
      this.#meshAside = {};
      return { ...all, resources: waiting };
    }
    const faults = this.#culprits(waiting);
    const good = waiting.filter(({ key }) => !faults.has(key));
    const withMesh = this.#attempt(good, mesh);
    const step = withMesh instanceof Error ? this.#attempt(good, {}) : withMesh;
    // Each by itself can be taken, together they cannot.
    if (step instanceof Error) for (const { key } of good) faults.set(key, step.message);
    if (withMesh instanceof Error) this.#keepMesh(mesh, withMesh);
    else this.#meshAside = {};
    this.#setAside(waiting, faults);
    const something = good.length > 0 || (!(withMesh instanceof Error) && isPresent(mesh));
    return step instanceof Error || !something ? undefined : { ...step, resources: good };
  }

  #setAside(waiting: readonly Change[], faults: ReadonlyMap<ResourceKey, string>): void {
    const known = this.#aside;
    this.#aside = new Map(waiting.filter(({ key }) => faults.has(key)).map((change) => [change.key, change]));
    for (const [key, change] of this.#aside) {
      if (known.get(key) !== change) this.#options.onFault({ key, message: faults.get(key) ?? '' });
    }
  }

  #keepMesh(mesh: MeshChange, { message }: Error): void {
    const known = mesh.mesh === this.#meshAside.mesh && mesh.networks === this.#meshAside.networks;
    this.#meshAside = mesh;
    if (!known && isPresent(mesh)) this.#options.onFault({ key: 'mesh configuration', message });
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

  /** Which of the changes cannot be taken, and why: by halves, so that one among many is found in a few attempts. */
  #culprits(changes: readonly Change[]): Map<ResourceKey, string> {
    const found = new Map<ResourceKey, string>();
    const parts: (readonly Change[])[] = [changes];
    for (let attempts = 0; parts.length > 0; attempts++) {
      const part = parts.pop() ?? [];
      const fault = part.length === 0 ? undefined : this.#attempt(part, {}, this.#options.model.fork());
      if (!(fault instanceof Error)) continue;
      if (part.length === 1 || attempts >= MAX_ATTEMPTS) {
        for (const { key } of part) found.set(key, fault.message);
        continue;
      }
      const middle = part.length >> 1;
      parts.push(part.slice(0, middle), part.slice(middle));
    }
    return found;
  }
}
