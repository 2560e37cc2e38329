/**
 * A worker's replica of the mesh, as far as generation reads it. Only changes cross the thread border, as data, and the same code makes
 * the same of them as on the main thread.
 */
import type { GenerateAnswer, GenerateTask, ReplicaUpdate } from '../../workers/protocol.ts';
import { applyDelta, createMesh, releaseScopes } from '../model/index.ts';
import type { MeshSnapshot } from '../model/types.ts';
import { runJobs } from './run-jobs.ts';
import { SaidUnits } from './unit-numbers.ts';
import { scopeOfKey } from './views.ts';

export class Replica {
  #snapshot: MeshSnapshot | undefined;
  #version = 0;
  #said = new SaidUnits();

  /** What the replica stands at; undefined before it was told anything. */
  get snapshot(): MeshSnapshot | undefined {
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

  #update(update: ReplicaUpdate): MeshSnapshot | undefined {
    const { fromVersion, toVersion, ...delta } = update;
    if (fromVersion !== 0 && fromVersion !== this.#version) return undefined;
    if (fromVersion !== 0 && toVersion === fromVersion) return this.#snapshot;
    const before = fromVersion === 0 ? emptyMesh(update) : this.#snapshot;
    if (before === undefined) return undefined;
    // Nothing half done stays should this throw.
    this.#snapshot = undefined;
    this.#version = 0;
    this.#snapshot = applyDelta(before, { ...delta, version: toVersion });
    this.#version = toVersion;
    return this.#snapshot;
  }
}

function emptyMesh({ settings, mesh, networks }: ReplicaUpdate): MeshSnapshot {
  if (settings === undefined || mesh === undefined || networks === undefined) {
    throw new TypeError('an update from version 0 carries settings, mesh configuration and networks');
  }
  return createMesh(settings, mesh, networks);
}
