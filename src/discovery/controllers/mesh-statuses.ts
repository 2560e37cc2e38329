/**
 * The statuses of mesh resources: the replica that leads writes them; with CTL_ENABLE_STATUS all replicas follow what
 * their proxies acknowledge.
 */
import { randomUUID } from 'node:crypto';
import type { AnalysisInput } from '../../analysis/index.ts';
import { systemClock } from '../../core/clock.ts';
import { getScope } from '../../logging/index.ts';
import {
  DocumentAcknowledgements,
  type DocumentInForce,
  isSettled,
  MeshFindings,
  MeshObjects,
  MeshStatuses,
  namespacesOf,
  type ReconciledSources,
  type RefusedVersion,
  type Rejection,
} from '../../mesh-status/index.ts';
import type { Engine, Session } from '../../push/index.ts';
import { type Kind, MESH_KINDS, type ResourceKey } from '../../resources/index.ts';
import { OWN_CLUSTER_SOURCE } from '../../sources/index.ts';
import type { Store } from '../../store/index.ts';
import type { WorkloadConnected } from '../../xds/index.ts';
import type { LeaderTask } from '../clusters/leadership.ts';
import type { Publisher } from '../pipeline/publisher.ts';
import type { RefusedDocuments } from '../pipeline/refused-documents.ts';
import { type ControllerInputs, runWhileLeading, statusOptions } from './leader-controller.ts';

export interface MeshStatusInputs extends ControllerInputs {
  readonly documents: RefusedDocuments;
  readonly store: Pick<Store, 'get'>;
  readonly engine: Pick<Engine, 'snapshot' | 'sessions' | 'reasonsFor' | 'readersOf' | 'withheld'>;
  readonly publisher: Pick<Publisher, 'onPublication'>;
  /** What analysis reads, without connected proxies: other replicas have others. */
  readonly analysisInput: () => AnalysisInput;
}

export interface MeshStatusTask extends LeaderTask {
  /** Follows what the proxy acknowledges. */
  readonly connected: WorkloadConnected;
}

const FOLLOWED: ReadonlySet<string> = new Set(MESH_KINDS);

/** Takes part in the election; undefined if no status of mesh resources is to be written. */
export function runMeshStatuses(inputs: MeshStatusInputs): MeshStatusTask | undefined {
  const { settings, cluster, publisher, documents, analysisInput: input } = inputs;
  const { reconciledStatus, analysisStatus, configDir } = settings;
  // With a directory, mesh resources are read from its files.
  if ((!reconciledStatus && !analysisStatus) || configDir !== '') return undefined;
  const access = statusOptions(inputs);
  const objects = new MeshObjects({ ...access, log: access.statusLog });
  const inForce = documentsInForce(inputs);
  const acknowledgements = reconciledStatus ? followAcknowledgements(inputs, objects, inForce) : undefined;
  const reconciled: ReconciledSources | undefined =
    acknowledgements === undefined
      ? undefined
      : { acknowledgements, inForce, refused: (key) => refusedVersions(documents, key) };
  let findings: MeshFindings | undefined;
  const create = (): MeshStatuses => {
    const onChanged = (keys: readonly ResourceKey[]): void =>
      keys.length === 0 ? statuses.allChanged() : statuses.changed(keys);
    findings = analysisStatus
      ? new MeshFindings({ clock: systemClock, input, log: getScope('analysis'), onChanged })
      : undefined;
    const statuses = new MeshStatuses({ ...access, objects, reconciled, findings });
    return statuses;
  };
  // The objects belong to all revisions.
  const options = { acrossRevisions: true };
  const task = runWhileLeading(cluster.leadership, 'mesh-status', create, options);
  publisher.onPublication(() => (task.isLeading ? findings?.changed() : undefined));
  documents.onChanged((id) => {
    const key = documents.get(id)?.key ?? id;
    task.changed(new Set([key]));
    findings?.changed();
  });
  objects.start();
  acknowledgements?.start();
  return {
    get isLeading() {
      return task.isLeading;
    },
    connected: (node, proxy) => acknowledgements?.connected(node, proxy),
    async close() {
      await task.close();
      await Promise.all([objects.close(), acknowledgements?.close()]);
    },
  };
}

/** Where each document of the cluster is in force, and since which snapshot. */
function documentsInForce({ store, engine, publisher }: MeshStatusInputs) {
  const versions = new Map<ResourceKey, number>();
  const first = engine.snapshot.version;
  publisher.onPublication(({ snapshot, resources }) => {
    for (const { key, after } of resources) {
      if (!FOLLOWED.has(kindOf(key))) continue;
      if (after === undefined) versions.delete(key);
      else versions.set(key, snapshot.version);
    }
  });
  return (key: ResourceKey): DocumentInForce | undefined => {
    if (!FOLLOWED.has(kindOf(key))) return undefined;
    const document = store.get(key);
    const { source, uid, generation } = document?.origin ?? {};
    if (document === undefined || source !== OWN_CLUSTER_SOURCE || uid === undefined || generation === undefined)
      return undefined;
    const published = engine.snapshot.resources(document.kind).get(key);
    const isPublished = published?.fingerprint === document.fingerprint;
    return { uid, generation, since: isPublished ? (versions.get(key) ?? first) : Number.POSITIVE_INFINITY };
  };
}

function followAcknowledgements(
  inputs: MeshStatusInputs,
  objects: MeshObjects,
  inForce: (key: ResourceKey) => DocumentInForce | undefined,
): DocumentAcknowledgements {
  const { settings, cluster, engine } = inputs;
  const acknowledgements = new DocumentAcknowledgements({
    client: cluster.client,
    namespace: settings.namespace,
    identity: cluster.leadership.identity,
    id: randomUUID(),
    clock: systemClock,
    random: Math.random,
    now: Date.now,
    log: getScope('status'),
    version: () => engine.snapshot.version,
    rootNamespace: () => engine.snapshot.settings.rootNamespace,
    documentsOf: documentsOf(engine),
    readersOf: (key) => new Set(Array.from(engine.readersOf(key).keys(), ({ connectionId }) => connectionId)),
    withheld: () => withheldDocuments(engine),
    inForce,
  });
  objects.follow((keys) => {
    for (const document of new Set(keys.map((key) => objects.documentOf(key)))) {
      const present = objects.objectKeysOf(document).flatMap((key) => objects.get(key) ?? []);
      // Of two objects with one key, in two API groups, one is in force.
      const { uid } = inForce(document) ?? {};
      const object = present.find((each) => each.uid === uid) ?? present[0];
      acknowledgements.changed(document, object === undefined || isSettled(object) ? 0 : object.generation);
    }
  });
  return acknowledgements;
}

/** The documents from which a resource of a connection was generated. Sessions are listed once in a turn. */
function documentsOf(engine: MeshStatusInputs['engine']) {
  let sessions: ReadonlyMap<string, Session> | undefined;
  return (connectionId: string, resource: string): readonly ResourceKey[] => {
    if (sessions === undefined) {
      sessions = new Map(Array.from(engine.sessions(), (session) => [session.connectionId, session]));
      setImmediate(() => {
        sessions = undefined;
      });
    }
    const session = sessions.get(connectionId);
    if (session === undefined) return [];
    const found = engine.reasonsFor(session, resource).flatMap(({ documents }) => documents);
    return [...new Set(found)];
  };
}

function withheldDocuments(engine: MeshStatusInputs['engine']): ReadonlyMap<ResourceKey, Rejection> {
  const found = new Map<ResourceKey, Rejection>();
  for (const { documents, proxy: connectionId, namespace, message } of engine.withheld()) {
    // A connection's id begins with the id of its node: type~address~workload~domain.
    const proxy = connectionId.split('~')[2] ?? connectionId;
    const rejection = { proxy, namespace, namespaces: namespacesOf(documents), message };
    for (const key of documents) if (!found.has(key)) found.set(key, rejection);
  }
  return found;
}

function refusedVersions(documents: RefusedDocuments, key: ResourceKey): readonly RefusedVersion[] {
  return documents.of(key).flatMap(({ problem: { origin, field, message }, inForce }) => {
    const { uid, generation } = origin;
    if (uid === undefined || generation === undefined) return [];
    return [{ uid, generation, message: `${field === '' ? '' : `${field}: `}${message}${inForce}` }];
  });
}

function kindOf(key: ResourceKey): Kind {
  return key.slice(0, key.indexOf('/')) as Kind;
}
