/**
 * The first part of the pipeline, sources → store: the store validates and keeps what sources report, and the caller
 * learns which resources changed.
 */

import { systemClock } from '../../core/clock.ts';
import type { SourceStatus } from '../../debug/index.ts';
import type { Connection } from '../../kubernetes/index.ts';
import type { Metrics } from '../../observe/index.ts';
import {
  KEY_SET_SOURCE,
  type Kind,
  type MeshConfig,
  type ObjectAccess,
  type ResourceEvent,
  type ResourceKey,
  resourceKey,
} from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { OWN_CLUSTER_SOURCE, type SourceIdentity, type SourceSink } from '../../sources/index.ts';
import { type AppliedSummary, createStore, RefusedPolicies, type Store } from '../../store/index.ts';
import type { RemoteClusters } from '../clusters/remote-clusters.ts';
import { rootNamespaceOf } from '../config/model-settings.ts';
import { createSources, type Sources } from '../config/sources.ts';
import { openStateDirectory } from '../process/state-directory.ts';
import { REGISTRATION_SOURCE } from '../registration/entries.ts';
import { inForce, problemLog, sharedLog, takeoverLog, warningLog } from './document-log.ts';
import { configuredRemotes, configuredSources } from './inputs.ts';
import { SourceMeter } from './observers.ts';
import { RefusedDocuments } from './refused-documents.ts';
import type { Translation } from './translation.ts';

export interface IntakeOptions {
  readonly settings: DiscoverySettings;
  /** To the cluster; undefined when no cluster is read. */
  readonly connection: Connection | undefined;
  /** The mesh configuration at the start: its root namespace holds the mesh-wide policies. */
  readonly mesh: MeshConfig;
  /** Which Ingresses and Gateways are of the mesh: Secrets of others are not read. */
  readonly serves: Pick<Translation, 'servesGateway' | 'servesIngress' | 'setAccess'>;
  readonly metrics: Metrics;
  /** Called after each batch. `seenAt`: monotonic ms, when its source last saw a sign of a change. */
  readonly onChanged: (keys: ReadonlySet<ResourceKey>, seenAt: number | undefined) => void;
  /** Called when a source sees that something is changing, before it has read what. `at`: monotonic ms. */
  readonly onChangePending: (at: number) => void;
}

export interface Intake {
  readonly sources: Sources;
  readonly store: Store;
  /** Keeps the last good version of each refused policy in force, so that its workloads are not left open. */
  readonly refusedPolicies: RefusedPolicies;
  /** Of the program's own cluster. */
  readonly refusedDocuments: RefusedDocuments;
  /** The states of all sources, and what is refused of other clusters. */
  status(): readonly SourceStatus[];
  /** Other clusters. Undefined when none is read. */
  readonly remotes: RemoteClusters | undefined;
  /**
   * Starts the sources. Resolves when each has been read once; other clusters are waited for a limited time. Rejects
   * with CtlError when something cannot be read at start.
   */
  start(): Promise<void>;
  /** Takes an event of the key sets of token issuers, which are a source without a life of its own. */
  applyKeySet(event: ResourceEvent): void;
  /** Takes WorkloadEntries of registered workloads, where no API server stores them. */
  applyRegistered(event: ResourceEvent): void;
  /** Ends the sources and writes the state that is kept over restarts. */
  close(): Promise<void>;
}

/** Resolves when the last good policies are read; no source is started yet. Rejects with CtlError when they are not. */
export async function openIntake(options: IntakeOptions): Promise<Intake> {
  const { settings, connection, mesh, metrics, onChanged, onChangePending } = options;
  const rootNamespace = rootNamespaceOf(settings, mesh);
  const lastGood = await openStateDirectory(settings.stateDir);
  const refusedPolicies = new RefusedPolicies({ lastGood, rootNamespace });
  const namespaces = readNamespaces(settings, mesh);
  const { servesGateway, servesIngress, setAccess } = options.serves;
  const onAccess = (kind: Kind, name: string, access: ObjectAccess): void => {
    // Whatever its namespace: documents of this key do not exist.
    if (setAccess(kind, name, access)) onChanged(new Set([resourceKey(kind, '', name)]), undefined);
  };
  const read = { servesGateway, onAccess };
  const serves = mesh.ingressControllerMode === 'OFF' ? read : { ...read, servesIngress };
  const sources = createSources(configuredSources(settings, connection, namespaces, serves));
  const remotes = configuredRemotes(settings, connection, namespaces, {
    sources,
    onDelayed: (changes) => metrics.ctl_remote_cluster_delayed_changes_total.inc(changes),
  });
  const refusedDocuments = new RefusedDocuments();
  const store = createLoggedStore(settings, rootNamespace, sources, refusedPolicies, refusedDocuments);
  const meter = new SourceMeter(metrics);

  const applied = (summary: AppliedSummary, seenAt?: number): void => {
    meter.applied(summary);
    onChanged(summary.changed, seenAt);
  };
  const sinkOf = (source: SourceIdentity): SourceSink => {
    const { id } = source;
    store.add(source);
    const received = (summary: AppliedSummary, seenAt: number | undefined): void => {
      meter.received(summary.events);
      applied(summary, seenAt);
    };
    return {
      apply: (events, seenAt) => received(store.apply(id, events), seenAt),
      replace: (list, seenAt) => received(store.replace(id, list), seenAt),
      changing: onChangePending,
    };
  };
  return {
    sources,
    store,
    refusedPolicies,
    refusedDocuments,
    remotes,
    status: () => [...sources.status(), ...(remotes?.refused() ?? [])],
    async start() {
      const opened = sources.open({ sinkOf, removed: ({ id }) => applied(store.remove(id, systemClock.now())) });
      await Promise.all([opened, remotes?.start()]);
      refusedPolicies.synced();
    },
    applyKeySet: (event) => applied(store.apply(KEY_SET_SOURCE, [event])),
    applyRegistered: (event) => applied(store.apply(REGISTRATION_SOURCE, [event])),
    async close() {
      await remotes?.close();
      await sources.close();
      await lastGood.written();
    },
  };
}

/** A store that logs refused documents, and documents of several sources with one key. */
function createLoggedStore(
  { clusterID: cluster, appNamespace }: DiscoverySettings,
  rootNamespace: string,
  sources: Sources,
  refusedPolicies: RefusedPolicies,
  refusedDocuments: RefusedDocuments,
): Store {
  const log = problemLog();
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
    onShared: sharedLog(),
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
