/**
 * A worker's replica of the snapshot's inputs. It builds its own snapshot from the same resources as the main thread, so that
 * only changes cross the thread border, as data, and never a snapshot.
 */
import type { GenerateAnswer, GenerateTask, ReplicaUpdate } from '../../workers/protocol.ts';
import { applyChanges, createModel, releaseScopes } from '../model/index.ts';
import type { Snapshot } from '../model/types.ts';
import { keyOf, type ResourceChange } from '../resources/types.ts';
import { runJobs } from './run-jobs.ts';
import { SaidUnits } from './unit-numbers.ts';
import { scopeOfKey } from './views.ts';

export class Replica {
  #snapshot: Snapshot | undefined;
  #version = 0;
  #said = new SaidUnits();

  /** What the replica stands at; undefined before it was told anything. */
  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /**
   * Brings the replica up to date and runs the task's jobs. `behind` when the update does not start where the replica stands, `failed`
   * when a job throws: the replica is as good as before. Throws when the update cannot be taken; then the replica has nothing.
   */
  run(task: GenerateTask): GenerateAnswer {
    const started = performance.now();
    if (task.forget === true) this.#said = new SaidUnits();
    if (task.released !== undefined) this.#release(task.released);
    const snapshot = this.#update(task.update);
    if (snapshot === undefined) return { kind: 'behind', version: this.#version };
    try {
      const { jobs, bytes } = runJobs(snapshot, task.jobs, this.#said);
      return { kind: 'done', version: this.#version, jobs, bytes, milliseconds: performance.now() - started };
    } catch (error) {
      return {
        kind: 'failed',
        version: this.#version,
        message: error instanceof Error ? error.message : String(error),
      };
    }
  }

  #release(released: 'all' | readonly string[]): void {
    const gone = released === 'all' ? undefined : new Set(released);
    this.#said.forget((place) => gone === undefined || gone.has(scopeOfKey(place)));
    if (this.#snapshot === undefined) return;
    releaseScopes(this.#snapshot, (id) => gone !== undefined && !gone.has(id));
  }

  #update(update: ReplicaUpdate): Snapshot | undefined {
    const { fromVersion, toVersion } = update;
    if (fromVersion !== 0 && fromVersion !== this.#version) return undefined;
    const before = fromVersion === 0 ? emptyModel(update) : this.#snapshot;
    if (before === undefined || toVersion === this.#version) return before;
    // Nothing half done stays should this throw.
    this.#snapshot = undefined;
    this.#version = 0;
    this.#snapshot = applyChanges(before, {
      changes: changesOf(update),
      version: toVersion,
      ...(update.mesh === undefined ? {} : { mesh: update.mesh }),
      ...(update.networks === undefined ? {} : { networks: update.networks }),
    }).snapshot;
    this.#version = toVersion;
    return this.#snapshot;
  }
}

function emptyModel({ settings, mesh, networks }: ReplicaUpdate): Snapshot {
  if (settings === undefined || mesh === undefined || networks === undefined) {
    throw new TypeError('an update from version 0 carries settings, mesh configuration and networks');
  }
  return createModel(settings, mesh, networks);
}

/** The model knows itself what was there before. */
function changesOf({ sets, deletes }: ReplicaUpdate): ResourceChange[] {
  return [
    ...sets.map((after) => ({ key: keyOf(after), before: undefined, after })),
    ...deletes.map((key) => ({ key, before: undefined, after: undefined })),
  ];
}
