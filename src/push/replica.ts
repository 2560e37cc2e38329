/**
 * A worker's replica of the snapshot's inputs. It builds its own snapshot from the same resources as the main thread, so that
 * only changes cross the thread border, as data, and never a snapshot.
 */
import type { GenerateAnswer, GenerateTask, ReplicaUpdate } from '../../workers/protocol.ts';
import { applyChanges, createModel } from '../model/index.ts';
import type { Snapshot } from '../model/types.ts';
import { type AnyResource, keyOf, type ResourceChange, type ResourceKey } from '../resources/types.ts';
import { runJobs } from './run-jobs.ts';

export class Replica {
  #snapshot: Snapshot | undefined;
  #resources = new Map<ResourceKey, AnyResource>();
  #version = 0;

  /** Brings the replica up to date and runs the task's jobs; `behind` when the update does not start where the replica stands. */
  run(task: GenerateTask): GenerateAnswer {
    const started = performance.now();
    const snapshot = this.#update(task.update);
    if (snapshot === undefined) return { kind: 'behind', version: this.#version };
    const { jobs, bytes } = runJobs(snapshot, task.jobs);
    return { kind: 'done', version: this.#version, jobs, bytes, milliseconds: performance.now() - started };
  }

  #update(update: ReplicaUpdate): Snapshot | undefined {
    if (update.fromVersion === 0) this.#reset(update);
    else if (update.fromVersion !== this.#version) return undefined;
    if (this.#snapshot === undefined) return undefined;
    if (update.toVersion !== this.#version) {
      this.#snapshot = applyChanges(this.#snapshot, {
        changes: this.#changes(update),
        version: update.toVersion,
        ...(update.mesh === undefined ? {} : { mesh: update.mesh }),
        ...(update.networks === undefined ? {} : { networks: update.networks }),
      }).snapshot;
      this.#version = update.toVersion;
    }
    return this.#snapshot;
  }

  #reset({ settings, mesh, networks }: ReplicaUpdate): void {
    if (settings === undefined || mesh === undefined || networks === undefined) {
      throw new TypeError('an update from version 0 carries settings, mesh configuration and networks');
    }
    this.#resources = new Map();
    this.#snapshot = createModel(settings, mesh, networks);
    this.#version = 0;
  }

  #changes(update: ReplicaUpdate): ResourceChange[] {
    const changes: ResourceChange[] = [];
    for (const resource of update.sets) {
      const key = keyOf(resource);
      changes.push({ key, before: this.#resources.get(key), after: resource });
      this.#resources.set(key, resource);
    }
    for (const key of update.deletes) {
      const before = this.#resources.get(key);
      if (before !== undefined) changes.push({ key, before, after: undefined });
      this.#resources.delete(key);
    }
    return changes;
  }
}
