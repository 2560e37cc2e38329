/**
 * Works on every object of a collection after each of its changes, one change of an object at a time, and again after a
 * failure, with a delay that grows: nothing waits for a list that may never come.
 */
import { backoff } from '../../../src/core/backoff.ts';
import { systemClock } from '../../../src/core/clock.ts';
import { WorkQueue } from '../../../src/core/scheduling/work-queue.ts';
import type { Owner } from '../owner.ts';
import type { ApiObject, KubernetesApi } from './api.ts';
import { messageOf } from './pods/types.ts';
import type { RecentErrors } from './recent-errors.ts';
import { keyOf, watchCollection } from './watch.ts';

export interface ControllerOptions {
  readonly api: KubernetesApi;
  /** Of the collection: `/api/v1/pods`. */
  readonly path: string;
  /** Makes the newest state of an object true; undefined for a deleted one. What rejects is repeated. */
  readonly reconcile: (key: string, object: ApiObject | undefined) => Promise<void>;
  /** Receives what `reconcile` rejected with, and errors of the watch with the path as their subject. */
  readonly errors: RecentErrors;
}

export interface Controller {
  /** Works on all objects once more, as when something else that they depend on has changed. */
  again(): void;
}

/** Delays after failures, ms. */
const [FIRST_DELAY_MS, LONGEST_DELAY_MS] = [100, 5_000];

/** Runs until its owner ends. */
export function startController(owner: Owner, { api, path, reconcile, errors }: ControllerOptions): Controller {
  /** The newest state of each. */
  const objects = new Map<string, ApiObject>();
  const failures = new Map<string, number>();
  const queue = new WorkQueue({
    work: async (key) => {
      try {
        await reconcile(key, objects.get(key));
        failures.delete(key);
        return 'done';
      } catch (error) {
        errors.note(key, messageOf(error));
        const count = (failures.get(key) ?? 0) + 1;
        failures.set(key, count);
        return backoff(count, FIRST_DELAY_MS, LONGEST_DELAY_MS, Math.random);
      }
    },
    // An object may take long, such as a Pod that ends: the others do not wait for it.
    concurrency: Number.POSITIVE_INFINITY,
    clock: systemClock,
    random: Math.random,
  });
  owner.after(() => queue.close());
  watchCollection(owner, api, path, {
    changed: (object) => {
      objects.set(keyOf(object), object);
      queue.add(keyOf(object));
    },
    gone: (key) => {
      objects.delete(key);
      queue.add(key);
    },
    failed: (error) => errors.note(path, messageOf(error)),
  });
  return {
    again: () => {
      for (const key of objects.keys()) queue.add(key);
    },
  };
}
