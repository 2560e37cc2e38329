/**
 * The policy component of the program: its documents and workloads, from each publication to its thread; its services,
 * from the calls of proxies to its thread; its metrics and logs, from its thread.
 *
 *   publication ──▶ documents, workloads ──▶ thread ◀── calls ◀── services ◀── Envoys
 */
import { systemClock } from '../../core/clock.ts';
import { wallClock } from '../../core/wall-clock.ts';
import type { GrpcService } from '../../grpc/index.ts';
import { getScope } from '../../logging/index.ts';
import type { ModelChange, Snapshot } from '../../model/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { workerUrl } from '../../paths.ts';
import { type FromPolicyThread, policyDocument, policyLanguage } from '../../policy/index.ts';
import { type AnyResource, POLICY_KINDS, type PolicyKind } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { MeshIdentity } from '../identity/identity.ts';
import { refusalLog } from '../pipeline/observers.ts';
import { PolicyCallers } from './callers.ts';
import type { ChangedDocument } from './document-feed.ts';
import { DroppedRecords } from './dropped-records.ts';
import { addStats, setConfigured } from './metrics.ts';
import { HandlerOutput } from './output.ts';
import { createPolicyServices } from './services.ts';
import { PolicyThreadOwner } from './thread-owner.ts';
import { isEmptyChange, WorkloadFeed } from './workload-feed.ts';

export interface Policy {
  readonly services: readonly GrpcService[];
  /** The page of the Prometheus handlers. */
  page(): Promise<string>;
  published(change: ModelChange): void;
  close(): Promise<void>;
}

export interface PolicyOptions {
  readonly settings: DiscoverySettings;
  /** The newest one. */
  readonly snapshot: () => Snapshot;
  readonly identity: Pick<MeshIdentity, 'callers'>;
  readonly metrics: Metrics;
}

/** Without the plugin `policy` nothing is served. Throws CtlError for an unknown MESH_LANG. */
export function openPolicy({ settings, snapshot, identity, metrics }: PolicyOptions): Policy {
  const language = policyLanguage(settings.meshLang);
  if (!settings.plugins.includes('policy'))
    return { services: [], page: async () => '', published: () => {}, close: async () => {} };
  const { rootNamespace } = snapshot().settings;
  const dropped = new DroppedRecords({
    write: (message) => getScope('grpcAdapter').warn(message),
    later: (ms, run) => void systemClock.setTimer(ms, run),
  });
  const output = new HandlerOutput((lines) =>
    getScope('grpcAdapter').warn(`${lines} lines were dropped, because the output is not read fast enough`),
  );
  const report = (message: FromPolicyThread): void => {
    if (message.kind === 'configured') configured(metrics, message);
    else if (message.kind === 'stats') {
      addStats(metrics, message);
      dropped.entries(message.droppedEntries);
    } else if (message.kind === 'log') getScope(message.scope)[message.level](message.message);
    else if (message.kind === 'lines') {
      output.write(message.stream, message.text);
      owner.written(message.text.length);
    }
  };
  const feed = new WorkloadFeed();
  const owner = new PolicyThreadOwner({
    workerFile: workerUrl('policy'),
    data: {
      options: { language, configNamespace: rootNamespace },
      skipsSanVerification: settings.bypassOopMtlsSanVerification,
    },
    clock: systemClock,
    random: Math.random,
    state: () => ({ documents: documentsOf(snapshot()), workloads: feed.all(snapshot()) }),
    onMessage: report,
    onCrash: (reason) => {
      metrics.ctl_total_xds_internal_errors.inc();
      getScope('attributes').error(`the policy thread ended and is started again: ${reason}`);
    },
  });
  const callers = new PolicyCallers(identity.callers, { monotonic: systemClock.now, wall: wallClock.now });
  const refused = refusalLog('attributes');
  const services = createPolicyServices({
    callers,
    check: (caller, request) => owner.check(caller, request),
    record: (caller, message) => owner.record(caller, message),
    dropped: ({ key }) => dropped.message(key),
    refused: (peer, error) => refused(peer, error, 'a call of the policy component'),
  });
  if (documentsOf(snapshot()).length > 0) owner.start();
  return {
    services: [services],
    page: () => owner.scrape(),
    published(change) {
      const documents = change.resources.flatMap(({ key, after }): ChangedDocument[] =>
        isPolicyKey(key) ? [[key, after && policyDocument(after)]] : [],
      );
      const isNeeded = documents.length > 0;
      const isRunning = owner.thread !== undefined;
      if (isNeeded) owner.start();
      if (!isRunning) return;
      const workloads = feed.changes(change);
      if (!isEmptyChange(workloads)) owner.changeWorkloads(workloads);
      if (isNeeded) owner.configure(documents);
    },
    async close() {
      await owner.close();
      output.close();
    },
  };
}

function isPolicyKey(key: string): boolean {
  return POLICY_KINDS.some((kind) => key.startsWith(`${kind}/`));
}

/** The documents of the component by key. */
function documentsOf(snapshot: Snapshot): ChangedDocument[] {
  const of = <K extends PolicyKind>(kind: K): ChangedDocument[] =>
    [...snapshot.resources(kind).entries()].map(([key, resource]) => [
      key,
      policyDocument(resource as unknown as AnyResource),
    ]);
  return POLICY_KINDS.flatMap((kind) => of(kind));
}

/** Problems that are logged for one configuration: a broken template may affect thousands of instances. */
const MAX_LOGGED = 20;

function configured(metrics: Metrics, message: Extract<FromPolicyThread, { kind: 'configured' }>): void {
  setConfigured(metrics, message);
  const log = getScope('attributes');
  const { problems } = message;
  for (const { kind, namespace, name, field, message: text, origin } of problems.slice(0, MAX_LOGGED)) {
    const { file, line } = origin;
    const where = file === undefined ? '' : `${file}${line === undefined ? '' : `:${line}`}: `;
    log.warn(`${where}${kind} ${namespace}/${name}: ${field}: ${text}`);
  }
  const more = problems.length - MAX_LOGGED;
  if (more > 0) log.warn(`${more} more problems of policy documents`);
}
