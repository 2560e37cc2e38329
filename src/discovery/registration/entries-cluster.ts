/**
 * WorkloadEntries as objects of an API server. Annotations say which replica a workload is connected to and since when,
 * or when it has disconnected: a workload that moves to another replica keeps its entry. Every write is conditional on
 * the version that was read. One replica removes entries that other replicas have abandoned.
 */
import { sleep, systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { createFailureLog } from '../../core/log.ts';
import { isObject } from '../../core/objects.ts';
import {
  ApiError,
  isRefusal,
  type KubernetesClient,
  type KubernetesObject,
  type ResourceType,
  reportFailure,
} from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import type { Snapshot } from '../../model/index.ts';
import { GROUP_ANNOTATION, HEALTHY_CONDITION } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { Leadership } from '../clusters/leadership.ts';
import { type AdmittedEntry, ENTRY_API_VERSION } from './admission.ts';
import { DISCONNECTED_AT, type EntryStorage, REFRESH_MS } from './entries.ts';
import { healthCondition } from './entries-memory.ts';

/** The replica that the workload is, or was last, connected to. */
export const CONTROLLER = 'mesh.io/workloadController';
/** When it connected, or when the replica last confirmed that it is connected. */
export const CONNECTED_AT = 'mesh.io/connectedAt';

/** A workload whose replica has not confirmed it for this long is considered gone, together with that replica. */
const STALE_MS = 2.5 * REFRESH_MS;
/**
 * A new leader removes none of these for this long: after a longer outage of the API server all entries are old, until
 * their replicas have confirmed them.
 */
const CONFIRM_MS = 600_000;
/** Interval at which the leader searches for entries without a workload. */
const MIN_SEARCH_MS = 5000;

const [group = '', version = ''] = ENTRY_API_VERSION.split('/');
const ENTRIES: ResourceType = { group, version, plural: 'workloadentries', kind: 'WorkloadEntry', namespaced: true };

type Annotations = Readonly<Record<string, string>>;

export interface ClusterEntriesOptions {
  readonly client: KubernetesClient;
  readonly leadership: Leadership;
  readonly settings: Pick<DiscoverySettings, 'workloadEntryGraceMs'>;
  readonly snapshot: () => Snapshot;
}

export function clusterEntries(options: ClusterEntriesOptions): EntryStorage {
  const { leadership, settings, snapshot } = options;
  const entries = new ClusterEntries(options.client, leadership.identity);
  // Workloads of all revisions are in the same WorkloadEntries.
  const task = leadership.run(
    'workload-entries',
    (signal) => removeAbandoned(entries, snapshot, settings.workloadEntryGraceMs, signal),
    { acrossRevisions: true },
  );
  return {
    connected: (entry, connectedAt, problem, isNews) => entries.connected(entry, connectedAt, problem, isNews),
    disconnected: (entry, at) => entries.disconnected(entry, at),
    remove: (entry) => entries.remove(entry, (object) => entries.isOwn(object, entry.group)),
    close: () => task.close(),
  };
}

class ClusterEntries {
  readonly #client: KubernetesClient;
  readonly #replica: string;

  constructor(client: KubernetesClient, replica: string) {
    this.#client = client;
    this.#replica = replica;
  }

  async connected(
    entry: AdmittedEntry,
    connectedAt: number,
    problem: string | undefined,
    isNews: boolean,
  ): Promise<void> {
    const { namespace, name } = entry;
    const existing = await this.#get(entry);
    if (existing !== undefined && annotationOf(existing, GROUP_ANNOTATION) !== entry.group) {
      throw new CtlError('already_exists', `WorkloadEntry ${namespace}/${name} exists and was not registered for it`);
    }
    // The workload has connected to another replica since.
    if (existing !== undefined && !this.#isMine(existing) && timeOf(existing, CONNECTED_AT) > connectedAt) {
      if (isNews && problem !== undefined) await this.#reportHealth(existing, problem);
      return;
    }
    const annotations: Record<string, string> = {
      ...existing?.metadata.annotations,
      ...entry.annotations,
      [CONTROLLER]: this.#replica,
      [CONNECTED_AT]: new Date(existing === undefined ? connectedAt : Date.now()).toISOString(),
    };
    delete annotations[DISCONNECTED_AT];
    const { labels, spec } = entry;
    const written =
      existing === undefined
        ? await this.#create({ metadata: { name, namespace, labels, annotations }, spec }, namespace)
        : await this.#client.update(
            ENTRIES,
            name,
            { ...existing, metadata: { ...existing.metadata, labels, annotations }, spec },
            { namespace },
          );
    if (problem !== undefined) await this.#reportHealth(written, problem);
  }

  async disconnected(entry: AdmittedEntry, at: number): Promise<void> {
    const object = await this.#get(entry);
    if (object === undefined || !this.isOwn(object, entry.group)) return;
    const annotations: Record<string, string> = {
      ...object.metadata.annotations,
      [DISCONNECTED_AT]: new Date(at).toISOString(),
    };
    delete annotations[CONNECTED_AT];
    const { namespace, name } = entry;
    await this.#client.update(
      ENTRIES,
      name,
      { ...object, metadata: { ...object.metadata, annotations } },
      { namespace },
    );
  }

  /** Deletes an entry, unless its newest version must be kept. */
  async remove(
    { namespace, name }: Pick<AdmittedEntry, 'namespace' | 'name'>,
    mayRemove: (object: KubernetesObject) => boolean,
  ): Promise<void> {
    const object = await this.#get({ namespace, name });
    if (object === undefined || !mayRemove(object)) return;
    const { uid, resourceVersion } = object.metadata;
    const guards = {
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    };
    try {
      await this.#client.delete(ENTRIES, name, { namespace, ...guards });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  /** Whether this replica registered the entry, and no other replica has registered it since. */
  isOwn(object: KubernetesObject, group: string): boolean {
    return annotationOf(object, GROUP_ANNOTATION) === group && this.#isMine(object);
  }

  #isMine(object: KubernetesObject): boolean {
    return annotationOf(object, CONTROLLER) === this.#replica;
  }

  async #get({ namespace, name }: Pick<AdmittedEntry, 'namespace' | 'name'>): Promise<KubernetesObject | undefined> {
    try {
      return await this.#client.get(ENTRIES, name, { namespace });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async #create(object: Parameters<KubernetesClient['create']>[1], namespace: string): Promise<KubernetesObject> {
    try {
      return await this.#client.create(ENTRIES, object, { namespace });
    } catch (error) {
      // Another replica created it first: the entry is read again.
      if (error instanceof ApiError && error.code === 'already_exists') {
        throw new CtlError('unavailable', 'another replica has created it at the same time', {}, error);
      }
      if (error instanceof ApiError && error.status !== 404 && isRefusal(error)) {
        throw new CtlError('already_exists', `the API server rejects its WorkloadEntry: ${error.message}`, {}, error);
      }
      throw error;
    }
  }

  async #reportHealth(object: KubernetesObject, problem: string): Promise<void> {
    const { name, namespace = '', resourceVersion } = object.metadata;
    const status = isObject(object.status) ? object.status : {};
    const all = Array.isArray(status.conditions) ? status.conditions.filter(isObject) : [];
    const before = all.find(({ type }) => type === HEALTHY_CONDITION);
    const condition = healthCondition(problem);
    if (before?.status === condition.status && (before.message ?? '') === (condition.message ?? '')) return;
    const now = new Date().toISOString();
    const lastTransitionTime = before?.status === condition.status ? before.lastTransitionTime : now;
    const others = all.filter(({ type }) => type !== HEALTHY_CONDITION);
    const conditions = [...others, { ...condition, lastProbeTime: now, lastTransitionTime }];
    await this.#client.patch(
      ENTRIES,
      name,
      { metadata: { resourceVersion }, status: { conditions } },
      { type: 'application/merge-patch+json', subresource: 'status', namespace },
    );
  }
}

/** Removes entries whose workload has disconnected and whose replica has not removed them, while this replica leads. */
async function removeAbandoned(
  entries: ClusterEntries,
  snapshot: () => Snapshot,
  graceMs: number,
  signal: AbortSignal,
): Promise<void> {
  const failures = createFailureLog(
    getScope('model'),
    'abandoned WorkloadEntries cannot be removed',
    'abandoned WorkloadEntries can be removed again',
  );
  const begun = systemClock.now();
  while (!signal.aborted) {
    await sleep(systemClock, Math.max(graceMs, MIN_SEARCH_MS), signal);
    const isAbandoned = systemClock.now() - begun > CONFIRM_MS ? isDisconnectedOrStale : hasDisconnected;
    for (const { meta } of snapshot().resources('WorkloadEntry').values()) {
      if (signal.aborted || !isAbandoned(meta.annotations, graceMs)) continue;
      try {
        await entries.remove(meta, (object) => isAbandoned(object.metadata.annotations ?? {}, graceMs));
        failures.succeeded();
      } catch (error) {
        // The entry has changed meanwhile.
        const isChanged = error instanceof ApiError && error.status === 409;
        if (!isChanged) reportFailure(failures, error);
      }
    }
  }
}

/** The entry gets twice the grace time, so that its own replica, if it still runs, removes it first. */
export function hasDisconnected(annotations: Annotations, graceMs: number, now = Date.now()): boolean {
  const disconnected = Date.parse(annotations[DISCONNECTED_AT] ?? '');
  return annotations[GROUP_ANNOTATION] !== undefined && now - disconnected > 2 * graceMs;
}

/** Like `hasDisconnected`, and also true when the replica has ended without recording it. */
export function isDisconnectedOrStale(annotations: Annotations, graceMs: number, now = Date.now()): boolean {
  if (annotations[DISCONNECTED_AT] !== undefined) return hasDisconnected(annotations, graceMs, now);
  const connected = Date.parse(annotations[CONNECTED_AT] ?? '');
  return annotations[GROUP_ANNOTATION] !== undefined && now - connected > STALE_MS;
}

function annotationOf({ metadata }: KubernetesObject, key: string): string | undefined {
  return metadata.annotations?.[key];
}

/** Milliseconds since the epoch; 0 without a time. */
function timeOf(object: KubernetesObject, key: string): number {
  return Date.parse(annotationOf(object, key) ?? '') || 0;
}
