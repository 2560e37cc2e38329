/**
 * From events to publications: the store takes events, the debounce says when, the model makes the next snapshot, the engine
 * pushes it. This is the main thread's clockwork; each wheel of it is tested by itself in its own room.
 */
import { applyChanges } from '../model/index.ts';
import type { ChangeSet, Snapshot } from '../model/types.ts';
import type { Publication } from '../push/index.ts';
import type { PushReason } from '../push/types.ts';
import type { MeshConfig, MeshNetworks } from '../resources/mesh-config.ts';
import type { ResourceChange } from '../resources/types.ts';

/** What a publication is made of: merged changes and the time of the first event among them. */
export interface TakenChanges {
  readonly changes: readonly ResourceChange[];
  /** Monotonic ms. */
  readonly firstEventAt: number;
}

export interface PublisherOptions {
  readonly snapshot: Snapshot;
  readonly now: () => number;
  /** Told of each snapshot that has something new, and of its cost in milliseconds. */
  readonly onPublication: (publication: Publication, milliseconds: number) => void;
}

const NO_REASONS: ReadonlySet<PushReason> = new Set();

/** True when nothing that generation reads differs. */
function isEmpty(changes: ChangeSet): boolean {
  return (
    !changes.everything &&
    changes.services.size === 0 &&
    changes.endpoints.size === 0 &&
    changes.addresses.size === 0 &&
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

/** Holds the current snapshot and makes the next. */
export class Publisher {
  readonly #options: PublisherOptions;
  #snapshot: Snapshot;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#snapshot = options.snapshot;
  }

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** Publishes changed resources, a changed mesh configuration, or both. Nothing leaves when nothing is to be done. */
  publish(taken: TakenChanges, mesh: { readonly mesh?: MeshConfig; readonly networks?: MeshNetworks } = {}): void {
    if (taken.changes.length === 0 && mesh.mesh === undefined && mesh.networks === undefined) return;
    const started = this.#options.now();
    const { snapshot, changes } = applyChanges(this.#snapshot, { changes: taken.changes, ...mesh });
    this.#snapshot = snapshot;
    // Replicas have to follow even when proxies have nothing to gain: they are fed the inputs, not the outcome.
    const reasons = isEmpty(changes) ? NO_REASONS : reasonsOf(changes);
    const publication = { snapshot, changes, resources: taken.changes, since: taken.firstEventAt, reasons };
    this.#options.onPublication(publication, this.#options.now() - started);
  }
}
