/**
 * A worker's replica of what generation reads of the mesh. Only changes cross the thread border, as plain data; the
 * same code as on the main thread applies them.
 */
import { InternalError, messageOf } from '../../core/errors.ts';
import { scopeIdOfView } from '../../generate/index.ts';
import { MeshModel, type MeshSnapshot } from '../../model/index.ts';
import type { GenerateAnswer, GenerateTask, ReplicaUpdate } from '../protocol.ts';
import { scopeOfKey } from '../proxies/index.ts';
import { runJobs } from './run-jobs.ts';
import { SentUnits } from './unit-numbers.ts';

export class Replica {
  #model: MeshModel | undefined;
  #version = 0;
  #sentUnits = new SentUnits();
  /** Scopes that jobs needed and that were not released since. */
  #acquired = new Set<string>();

  /** The replica's snapshot; undefined before the first update. */
  get snapshot(): MeshSnapshot | undefined {
    return this.#model?.snapshot;
  }

  /** Number of scopes that the replica keeps up to date. */
  get scopes(): number {
    return this.#model?.scopes ?? 0;
  }

  /**
   * Updates the replica and runs the task's jobs. Answers `behind` when the update does not start at the replica's
   * version, and `failed` when a job throws; the replica stays usable in both cases. Throws when the update cannot be
   * applied; then the replica is empty.
   */
  run(task: GenerateTask): GenerateAnswer {
    const started = performance.now();
    if (task.forget === true) this.#sentUnits = new SentUnits();
    if (task.released !== undefined) this.#release(task.released);
    const model = this.#update(task.update);
    if (model === undefined) return { kind: 'behind', version: this.#version };
    try {
      for (const { view } of task.jobs) this.#acquire(model, scopeIdOfView(view));
      const { jobs, bytes, reads } = runJobs(model.snapshot, task.jobs, this.#sentUnits);
      return { kind: 'done', version: this.#version, jobs, bytes, reads, milliseconds: performance.now() - started };
    } catch (error) {
      return {
        kind: 'failed',
        version: this.#version,
        message: messageOf(error),
      };
    }
  }

  #acquire(model: MeshModel, id: string): void {
    if (this.#acquired.has(id)) return;
    model.acquire(id);
    this.#acquired.add(id);
  }

  #release(released: 'all' | readonly string[]): void {
    const gone = released === 'all' ? undefined : new Set(released);
    this.#sentUnits.forget((path) => gone === undefined || gone.has(scopeOfKey(path)));
    for (const id of released === 'all' ? [...this.#acquired] : released) {
      if (this.#acquired.delete(id)) this.#model?.release(id);
    }
  }

  #update(update: ReplicaUpdate): MeshModel | undefined {
    const { fromVersion, toVersion, ...delta } = update;
    if (fromVersion !== 0 && fromVersion !== this.#version) return undefined;
    if (fromVersion !== 0 && toVersion === fromVersion) return this.#model;
    const model = fromVersion === 0 ? emptyMesh(update) : this.#model;
    if (model === undefined) return undefined;
    // Nothing half-applied stays when this throws.
    this.#model = undefined;
    this.#version = 0;
    if (fromVersion === 0) this.#acquired = new Set();
    model.apply({ ...delta, version: toVersion });
    this.#model = model;
    this.#version = toVersion;
    return model;
  }
}

function emptyMesh({ settings, mesh, networks }: ReplicaUpdate): MeshModel {
  if (settings === undefined || mesh === undefined || networks === undefined) {
    throw new InternalError('an update from version 0 carries settings, mesh configuration and networks');
  }
  return new MeshModel(settings, mesh, networks);
}
