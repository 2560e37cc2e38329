/** Gives debug pages access to the state of the running program. */
import type { DebugSource, LeaderStatus, Recent, SourceStatus } from '../../debug/index.ts';
import type { Previews } from '../../preview/index.ts';
import type { ConnectionStatus, Engine, Session } from '../../push/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import type { RefusedPolicies, Store } from '../../store/index.ts';
import type { XdsServer } from '../../xds/index.ts';
import { type AnalyzedParts, analysisInput } from '../pipeline/analysis-input.ts';
import type { DistributionHistory } from '../pipeline/distribution.ts';
import { findingsOf } from '../pipeline/finding-log.ts';
import type { GaugeSource } from '../pipeline/gauges.ts';

export interface DebugParts {
  readonly replica: string;
  /** The mesh configuration in force. */
  readonly mesh: () => MeshConfig;
  readonly injection: DebugSource['injection'];
  readonly store: Store;
  readonly engine: Engine;
  readonly server: XdsServer;
  readonly refusedPolicies: RefusedPolicies;
  readonly warningsOf: DebugSource['warningsOf'];
  readonly sources: () => readonly SourceStatus[];
  readonly leadership: () => readonly LeaderStatus[];
  /** Undefined when distribution is not tracked. */
  readonly history: DistributionHistory | undefined;
  readonly recent: Recent;
  readonly previews: Previews;
  readonly showConfigInAdsz: boolean;
  /** Whether the Secrets that Gateways name are read; gateways may read them themselves instead. */
  readonly readsSecrets: boolean;
  readonly policyLanguage: AnalyzedParts['policyLanguage'];
}

/** The source for one page, which looks up sessions once. */
export function createDebugSource(parts: DebugParts): DebugSource & GaugeSource {
  const { store, engine, server, refusedPolicies, warningsOf, sources, leadership, history, previews } = parts;
  let sessions: Map<string, Session> | undefined;
  let held: ReturnType<XdsServer['onDemand']['held']> | undefined;
  const sessionOf = (connectionId: string): Session | undefined => {
    sessions ??= new Map([...engine.sessions()].map((session) => [session.connectionId, session]));
    return sessions.get(connectionId);
  };
  return {
    replica: parts.replica,
    mesh: parts.mesh,
    injection: parts.injection,
    snapshot: () => engine.snapshot,
    connections: () => server.connections(),
    quarantined: () => server.quarantined(),
    demandCounts: () => server.onDemand.counts(),
    held(connectionId) {
      held ??= server.onDemand.held();
      return held.get(connectionId)?.();
    },
    parts: (connectionId, type) => sessionOf(connectionId)?.parts(type) ?? [],
    isLater(connectionId, type, name) {
      const session = sessionOf(connectionId);
      return (type === 'cds' ? session?.laterClusters : session?.laterHosts)?.has(name) === true;
    },
    sources,
    leadership,
    documents: (key) => store.documents(key),
    warningsOf,
    sharedKeys: () => store.sharedKeys(),
    problems: () => store.problems(),
    refusedPolicies: () => refusedPolicies.all(),
    findings: (wanted = () => true) => findingsOf(engine, wanted),
    reasonsFor(connectionId, name) {
      const session = sessionOf(connectionId);
      return session === undefined ? [] : engine.reasonsFor(session, name);
    },
    readersOf: (document) =>
      new Map([...engine.readersOf(document)].map(([session, units]) => [session.connectionId, units])),
    analysisInput: () =>
      analysisInput(
        parts,
        // One by one: analysis may be interrupted between them.
        server.statuses().map(({ node: { namespace, workload, labels } }) => ({
          namespace,
          name: workload.replace(/\.[^.]*$/, ''),
          labels,
        })),
      ),
    engine: () => engine.stats(),
    queued: () => engine.stats().queued,
    failing: () => engine.failing(),
    withheld: () => engine.withheld(),
    withheldCounts: () => engine.withheldCounts(),
    ...(history === undefined ? {} : { distribution: (key, of) => distribution(parts, history, key, of) }),
    recent: parts.recent,
    previews,
    showConfigInAdsz: parts.showConfigInAdsz,
  };
}

function distribution(
  { store, engine }: DebugParts,
  history: DistributionHistory,
  key: string,
  connections: readonly ConnectionStatus[],
): readonly object[] | undefined {
  const versions = new Map([...engine.sessions()].map((session) => [session.connectionId, session.completeVersion()]));
  const versionOf = (connectionId: string): number => versions.get(connectionId) ?? 0;
  return history.where({ key, current: store.get(key)?.fingerprint, connections, versionOf, now: Date.now() });
}
