/**
 * The first part of the pipeline, sources → store → translation: the store validates and keeps what sources report,
 * followers learn which resources changed, and the changes are taken together with those of derived documents.
 */
import { systemClock } from '../../core/clock.ts';
import type { SourceStatus } from '../../debug/index.ts';
import type { Connection } from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import type { Metrics } from '../../observe/index.ts';
import {
  KEY_SET_SOURCE,
  type Kind,
  type MeshConfig,
  type MeshUpdate,
  type ObjectAccess,
  type ResourceEvent,
  type ResourceKey,
  resourceKey,
} from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { type MeshCertificate, OWN_CLUSTER_SOURCE } from '../../sources/index.ts';
import { createStore, type LastGoodStore, openLastGood, RefusedPolicies, type Store } from '../../store/index.ts';
import type { Remotes } from '../clusters/remote-clusters.ts';
import { rootNamespaceOf } from '../config/model-settings.ts';
import { createSources, type Sources } from '../config/sources.ts';
import { REGISTRATION_SOURCE } from '../registration/entries.ts';
import { Batches } from './batches.ts';
import { openConfigSources } from './config-sources.ts';
import { inForce, problemLog, sharedLog, takeoverLog, warningLog } from './document-log.ts';
import { configuredRemotes, configuredSources } from './inputs.ts';
import { SourceMeter } from './observers.ts';
import { RefusedDocuments } from './refused-documents.ts';
import { type IntakeFollower, storeSinks } from './store-sinks.ts';
import { createTranslation, type Translation } from './translation.ts';

export interface IntakeOptions {
  readonly settings: DiscoverySettings;
  /** The connection to the cluster; undefined if no cluster is read. */
  readonly connection: Connection | undefined;
  /** The mesh configuration at startup: its root namespace holds the mesh-wide policies. */
  readonly mesh: MeshConfig;
  readonly metrics: Metrics;
  /** The certificate of this control plane, for sources that ask for one; undefined if it has none. */
  readonly certificate: Promise<MeshCertificate | undefined>;
}

export interface Intake {
  readonly sources: Sources;
  readonly store: Store;
  readonly translation: Translation;
  /** Keeps the last good version of each refused policy in force, so that its workloads are not left open. */
  readonly refusedPolicies: RefusedPolicies;
  /** Of the program's own cluster. */
  readonly refusedDocuments: RefusedDocuments;
  /** The states of all sources, and the refused entries of other clusters. */
  status(): readonly SourceStatus[];
  readonly remotes: Remotes;
  /**
   * Starts the sources. Resolves when each has been read once; other clusters are waited for a limited time. Rejects
   * with CtlError when something cannot be read at start.
   */
  start(): Promise<void>;
  /** Calls the follower after each batch from now on. What changed before is in the next {@link take}. */
  follow(follower: IntakeFollower): void;
  /** Resolves when no large batch of a source is half applied; undefined when none is. */
  complete(): Promise<unknown> | undefined;
  /** The changes of the store since the last call, if their keys pass the filter, with those of derived documents. */
  take(filter?: (key: ResourceKey) => boolean): MeshUpdate;
  /** Takes an event of the key sets of token issuers, which are a source without a life of its own. */
  applyKeySet(event: ResourceEvent): void;
  /** Takes WorkloadEntries of registered workloads, where no API server stores them. */
  applyRegistered(event: ResourceEvent): void;
  /** Ends the sources and writes the state that is kept over restarts. */
  close(): Promise<void>;
}

/** Resolves when the last good policies are read; no source is started yet. Rejects with CtlError when they are not. */
export async function openIntake(options: IntakeOptions): Promise<Intake> {
  const { settings, connection, mesh, metrics } = options;
  const rootNamespace = rootNamespaceOf(settings, mesh);
  const lastGood = await openStateDirectory(settings.stateDir);
  const refusedPolicies = new RefusedPolicies({ lastGood, rootNamespace });
  const namespaces = readNamespaces(settings, mesh);
  const followers: IntakeFollower[] = [];
  const changed = (keys: ReadonlySet<ResourceKey>, seenAt?: number): void => {
    for (const each of followers) each.changed(keys, seenAt);
  };
  // It reads the store only when sources have been started, or changes are taken.
  const translation = createTranslation(settings, (key) => store.get(key));
  translation.configure(mesh);
  const serves = servedBy(translation, mesh, changed);
  const meter = new SourceMeter(metrics);
  const registries = configuredSources(
    settings,
    connection,
    { namespaces, rootNamespace },
    { ...serves, onIgnored: meter.ignored },
    (key) => store.get(key),
  );
  const sources = createSources([...registries, ...openConfigSources(options)]);
  const remotes = configuredRemotes(settings, connection, namespaces, {
    sources,
    onDelayed: (changes) => metrics.ctl_remote_cluster_delayed_changes_total.inc(changes),
  });
  const refusedDocuments = new RefusedDocuments();
  const store = createLoggedStore(settings, rootNamespace, sources, { refusedPolicies, refusedDocuments, meter });

  const batches = new Batches(systemClock.now);
  const sinks = storeSinks({ store, meter, batches, followers, clock: systemClock });
  const { applied, sinkOf, removed } = sinks;
  return {
    sources,
    store,
    translation,
    refusedPolicies,
    refusedDocuments,
    remotes,
    status: () => [...sources.status(), ...remotes.refused()],
    async start() {
      await Promise.all([sources.open({ sinkOf, removed }), remotes.start()]);
      refusedPolicies.synced();
    },
    follow: (follower) => void followers.push(follower),
    complete: () => batches.ended(),
    take(filter) {
      batches.finish();
      return translation.apply(store.take(filter));
    },
    applyKeySet: (event) => applied(store.apply(KEY_SET_SOURCE, [event])),
    applyRegistered: (event) => applied(store.apply(REGISTRATION_SOURCE, [event])),
    async close() {
      await remotes.close();
      await sources.close();
      sinks.close();
      batches.finish();
      await lastGood.written();
    },
  };
}

/** Which Ingresses and Gateways belong to the mesh: Secrets of others are not read. */
function servedBy(
  { servesGateway, servesIngress, setAccess }: Translation,
  mesh: MeshConfig,
  changed: (keys: ReadonlySet<ResourceKey>) => void,
) {
  const onAccess = (kind: Kind, name: string, access: ObjectAccess): void => {
    // Whatever its namespace: documents of this key do not exist.
    if (setAccess(kind, name, access)) changed(new Set([resourceKey(kind, '', name)]));
  };
  const read = { servesGateway, onAccess };
  return mesh.ingressControllerMode === 'OFF' ? read : { ...read, servesIngress };
}

/** A store that logs refused documents, and documents of several sources with one key. */
function createLoggedStore(
  { clusterID: cluster, appNamespace }: DiscoverySettings,
  rootNamespace: string,
  sources: Sources,
  {
    refusedPolicies,
    refusedDocuments,
    meter,
  }: {
    readonly refusedPolicies: RefusedPolicies;
    readonly refusedDocuments: RefusedDocuments;
    readonly meter: SourceMeter;
  },
): Store {
  const log = problemLog();
  const shared = sharedLog();
  return createStore({
    sources: [...sources.all, ...[KEY_SET_SOURCE, REGISTRATION_SOURCE].map((id) => ({ id, cluster }))],
    cluster,
    appNamespaces: listOf(appNamespace),
    rootNamespace,
    refusedPolicies,
    onRefused: (source, problem) => {
      const held = refusedPolicies.of(source, problem.id);
      log.refused(problem, held);
      if (source === OWN_CLUSTER_SOURCE) refusedDocuments.refused(problem, inForce(held));
    },
    onResolved: (source, problem) => {
      log.resolved(problem);
      if (source === OWN_CLUSTER_SOURCE) refusedDocuments.resolved(problem);
    },
    onShared: (key, documents) => {
      shared(key, documents);
      meter.ignored(1);
    },
    onTakeover: takeoverLog(),
    onWarnings: warningLog(),
  });
}

/** The namespaces whose objects are read: those of `--appNamespace` and the root namespace; empty: all. */
export function readNamespaces(settings: DiscoverySettings, mesh: MeshConfig): readonly string[] {
  const namespaces = listOf(settings.appNamespace);
  return namespaces.length === 0 ? [] : [...new Set([...namespaces, rootNamespaceOf(settings, mesh)])];
}

/** The entries of a comma-separated list. */
export function listOf(text: string): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

/** Opens the directory with the last good policies. @param directory CTL_STATE_DIR */
async function openStateDirectory(directory: string): Promise<LastGoodStore> {
  return openLastGood({
    directory,
    warn: (message) => getScope('validation').warn(message),
    later: (ms, run) => void systemClock.setTimer(ms, run),
  });
}
