/**
 * The running discovery service. Data flows one way:
 *
 *   sources ─▶ store ─▶ snapshot ─▶ engine ─▶ xDS server ─▶ proxies
 *             intake   publisher
 *
 * This file starts the stages in this order, each with the results of those before it, and stops them in reverse order.
 * It also starts the HTTP addresses, which show all of them, and the certificate authority. Each part has its own file.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { buildInfo } from '../core/build-info.ts';
import { systemClock } from '../core/clock.ts';
import type { Closers } from '../core/process/closers.ts';
import type { ProxyNode } from '../core/proxy.ts';
import { PageMaker, ProxyTable, type Recent } from '../debug/index.ts';
import { getScope } from '../logging/index.ts';
import { Model } from '../model/index.ts';
import { collectProcessMetrics, createMetrics, type Metrics, otlpOptions, recordBuild } from '../observe/index.ts';
import { policyLanguage } from '../policy/index.ts';
import type { Previews } from '../preview/index.ts';
import { configurationOf, type Engine } from '../push/index.ts';
import type { AnyResource, MeshConfig, ResourceKey } from '../resources/index.ts';
import type { DiscoverySettings, Environment } from '../settings/index.ts';
import type { Debouncer } from '../store/index.ts';
import type { XdsServer } from '../xds/index.ts';
import { type Cluster, openCluster } from './clusters/cluster.ts';
import { gatewayControllerName } from './config/gateway-controller-name.ts';
import { type FollowedMeshFiles, followMeshFiles } from './config/mesh-files.ts';
import { modelSettings } from './config/model-settings.ts';
import { type Controllers, runControllers } from './controllers/controllers.ts';
import { type MeshIdentity, openIdentity } from './identity/identity.ts';
import { followKeySets } from './identity/key-sets.ts';
import type { OwnCertificate } from './identity/own-certificate.ts';
import { type AnalyzedParts, analysisInput } from './pipeline/analysis-input.ts';
import { DistributionHistory } from './pipeline/distribution.ts';
import { warningLog } from './pipeline/document-log.ts';
import { startDebouncer, startEngine } from './pipeline/engine.ts';
import { GatewayHosts } from './pipeline/gateway-hosts.ts';
import { sampleGauges } from './pipeline/gauges.ts';
import { type Intake, openIntake } from './pipeline/intake.ts';
import { publishProblems, xdsObserver } from './pipeline/observers.ts';
import { createPreviews, effectOf } from './pipeline/previews.ts';
import { publicationLog } from './pipeline/publications.ts';
import { Publisher } from './pipeline/publisher.ts';
import { RecentActivity } from './pipeline/recent-activity.ts';
import { resolveHost } from './pipeline/resolve-host.ts';
import { openPolicy } from './policy/policy.ts';
import { callerRanks } from './process/caller-ranks.ts';
import { type BeginGeneration, startGeneration } from './process/generation-pool.ts';
import { replicaName } from './process/replica.ts';
import { WorkloadRegistration } from './registration/registration.ts';
import { CostLog } from './serving/cost-log.ts';
import { createDebugSource } from './serving/debug-source.ts';
import { startDns } from './serving/dns.ts';
import { serveDocuments } from './serving/documents.ts';
import { startHttpServers } from './serving/http-servers.ts';
import { saveLearnedHosts } from './serving/learned-hosts.ts';
import { ProgramStatus } from './serving/program-status.ts';
import { startTelemetryExport } from './serving/telemetry-export.ts';
import { xdsDebugPages } from './serving/xds-debug.ts';
import { logAddresses, startXdsServer } from './serving/xds-listeners.ts';
import { ProxyConfigTable } from './webhooks/proxy-configs.ts';
import { startWebhooks, type Webhooks } from './webhooks/webhooks.ts';

/** The name that `/ready` shows for it. */
const AUTHORITY = 'the certificate authority';

/** The inputs of all parts. */
interface Program {
  readonly settings: DiscoverySettings;
  readonly env: Environment;
  readonly metrics: Metrics;
  /** Undefined when no cluster is read. */
  readonly cluster: Cluster | undefined;
  readonly status: ProgramStatus;
  /** Builds the debug pages of all addresses. */
  readonly maker: PageMaker;
  readonly closers: Closers;
}

/** The stages up to the first snapshot, and the other inputs of the mesh. */
interface Mesh {
  readonly files: FollowedMeshFiles;
  /** The mesh configuration at startup. */
  readonly mesh: MeshConfig;
  /** The one in force. */
  readonly inForce: { mesh: MeshConfig };
  readonly model: Model;
  readonly publisher: Publisher;
  readonly intake: Intake;
  readonly registration: WorkloadRegistration;
  readonly gatewayHosts: GatewayHosts;
  readonly proxyConfigs: ProxyConfigTable;
  readonly identity: MeshIdentity;
}

/** The stations after it. */
interface Serving {
  readonly engine: Engine;
  readonly previews: Previews;
  readonly debouncer: Debouncer;
  readonly controllers: Controllers;
  readonly webhooks: Webhooks;
  readonly server: XdsServer;
  readonly recent: RecentActivity;
}

/**
 * Resolves when proxies are served. Rejects with CtlError when an address or a file cannot be used. What was started is
 * ended by the closers: readiness fails first, then streams end one after the other within
 * TERMINATION_DRAIN_DURATION_SECONDS. Until its own stream ends, a proxy is sent every change.
 */
export async function startProgram(settings: DiscoverySettings, env: Environment, closers: Closers): Promise<void> {
  // An invalid name is reported at once, not only after an API server has been reached.
  gatewayControllerName(settings);
  const otlp = otlpOptions(settings, buildInfo(), replicaName(env));
  const registry = new Registry();
  const metrics = createMetrics(registry);
  recordBuild(metrics, 'ctl-discovery', buildInfo());
  collectProcessMetrics(registry);
  const cluster = await openCluster(settings, env);
  if (cluster !== undefined) closers.use(cluster);
  // The workers load their code while the mesh is read.
  const begin = startGeneration(settings, metrics, closers);
  const status = new ProgramStatus(closers.closing);
  const maker = new PageMaker({ now: systemClock.now, nextTurn: () => nextTurn() });
  const { listening } = closers.use(await startHttpServers({ settings, env, registry, metrics, status, maker }));
  const program = { settings, env, metrics, cluster, status, maker, closers };
  const mesh = await readMesh(program);
  const serving = await startServing(program, mesh, begin);
  show(program, mesh, serving);
  followChanges(mesh, serving);
  const { engine, webhooks, server, recent } = serving;
  if (otlp !== undefined) {
    const exported = { registry, metrics, sample: () => status.sample() };
    const pushes = (since: number) => recent.pushes.completed(since);
    closers.use(startTelemetryExport({ options: otlp, ...exported, pushes }));
  }
  server.setServing(true);
  const { store } = mesh.intake;
  const refused = store.problems().length;
  getScope('default').info(`serving ${engine.snapshot.services.size} services, ${refused} documents refused`);
  logAddresses(settings, [...webhooks.listening, ...listening], server, mesh.identity);
}

/** Sources → store → snapshot. */
async function readMesh({ settings, metrics, cluster, status, closers }: Program): Promise<Mesh> {
  const connection = cluster?.client.connection;
  const files = closers.use(followMeshFiles(settings, connection));
  status.reads(files);
  // Its key is in the cluster as well.
  const authorityIsRead = cluster === undefined ? () => {} : status.readsOnce(AUTHORITY, settings.clusterID);
  const { mesh, networks } = await files.first;

  const model = Model.empty(modelSettings(settings, mesh), mesh, networks);
  const publisher = new Publisher({ model, now: systemClock.now, onProblem: publishProblems(metrics) });
  publisher.onPublication(publicationLog(metrics, systemClock.now));
  const certificate = Promise.withResolvers<OwnCertificate | undefined>();
  const sourced = { settings, connection, mesh, metrics, certificate: certificate.promise };
  const intake = closers.use(await openIntake(sourced));
  status.reads(intake.sources);
  const [apply, snapshot] = [intake.applyRegistered, () => publisher.snapshot];
  const registering = { settings, cluster, apply, snapshot, stopping: closers.closing };
  const registration = closers.use(new WorkloadRegistration(registering));
  publisher.onPublication((publication) => registration.published(publication));

  const resolving = { resolve: resolveHost, clock: systemClock, random: Math.random, log: getScope('model') };
  const gatewayHosts = closers.use(new GatewayHosts(resolving));
  publisher.onPublication((publication) => gatewayHosts.published(publication.snapshot));
  const proxyConfigs = new ProxyConfigTable(warningLog());
  publisher.onPublication(({ snapshot: published }) => proxyConfigs.published(published));

  const authenticate = async (): Promise<MeshIdentity> => {
    const { remotes } = intake;
    const opened = closers.use(await openIdentity({ settings, mesh, metrics, cluster, remotes }));
    authorityIsRead();
    certificate.resolve(opened.certificate);
    status.samples(() => opened.sample());
    return opened;
  };
  // In parallel: creating the key of a root takes about as long as reading a mesh.
  const [identity] = await Promise.all([authenticate(), intake.start()]);
  const inForce = { mesh };
  const read = { files, mesh, inForce, model, publisher, intake, registration, gatewayHosts, proxyConfigs, identity };
  await publishFirst(read, settings, metrics, closers);
  return read;
}

/**
 * Publishes the documents that the sources listed, then the key sets that their policies refer to, the addresses of
 * gateways of networks, and the workloads of the last run that their groups admit. The engine starts from there.
 */
async function publishFirst(
  { intake, publisher, registration, gatewayHosts }: Mesh,
  settings: DiscoverySettings,
  metrics: Metrics,
  closers: Closers,
): Promise<void> {
  const refreshMs = settings.jwtPubKeyRefreshIntervalMs;
  const keySets = closers.use(followKeySets({ refreshMs, metrics, onEvent: intake.applyKeySet }));
  publisher.onPublication(keySets.published);
  publisher.publish(intake.take());
  await Promise.all([keySets.first(), registration.restored(), gatewayHosts.first()]);
  publisher.publish(intake.take(), gatewayHosts.take());
}

/** Snapshot → engine → proxies. Nothing is published meanwhile. */
async function startServing(program: Program, read: Mesh, begin: BeginGeneration): Promise<Serving> {
  const { settings, env, metrics, cluster, status, maker, closers } = program;
  const { mesh, model, publisher, intake, registration, proxyConfigs, identity } = read;
  const recent = closers.use(new RecentActivity());
  const generator = begin(model.snapshot);
  const engine = startEngine(settings, metrics, model, publisher, generator, recent);
  const previews = createPreviews({ settings, model, engine, previewer: generator, intake });
  const debouncer = startDebouncer(settings, metrics, intake, publisher);
  closers.add(() => debouncer.stop());
  // Ended after the drain, so that this replica leads until another serves its proxies.
  const { translation, refusedDocuments: documents, store } = intake;
  const version = () => engine.snapshot.version;
  const analyzed = { store, engine, warningsOf: warningsIn(read), ...analyzedBy(settings) };
  const ofMesh = { store, engine, publisher, documents, analysisInput: () => analysisInput(analyzed, []) };
  const controllers = closers.use(runControllers({ settings, cluster, translation, mesh, version, ...ofMesh }));
  // They answer until the streams have ended.
  const [rankOf, stopping] = [callerRanks(engine), closers.closing];
  const { rootNamespace } = publisher.snapshot.settings;
  const effect = (document: AnyResource) => effectOf(previews, document);
  const described = { settings, mesh, proxyConfigs, rootNamespace, identity, cluster, metrics, rankOf, stopping };
  const webhooks = closers.use(await startWebhooks({ ...described, effectOf: effect }));
  status.reads(webhooks);
  const followers = [(node: ProxyNode) => registration.connected(node), ...controllers.followers];
  const debugPages = xdsDebugPages({ status, maker, replica: replicaName(env), build: buildInfo() });
  const observer = recent.besideXds(xdsObserver(metrics));
  const { trustDomain } = publisher.snapshot.settings;
  const served = { settings, intake, identity, metrics, rootNamespace, trustDomain };
  const configuration = closers.use(serveDocuments(served));
  const policy = closers.use(openPolicy({ settings, snapshot: () => publisher.snapshot, identity, metrics }));
  publisher.onPublication((publication) => policy.published(publication));
  status.policyPage = () => policy.page();
  const { services } = policy;
  const parts = { settings, engine, identity, observer, followers, debugPages, documents: configuration, services };
  const server = await startXdsServer(parts);
  closers.add(() => {
    configuration.service.close();
    return server.close({ drainMs: settings.terminationDrainDurationSeconds * 1000 });
  });
  closers.use(saveLearnedHosts(server, settings, cluster));
  if (settings.sidecarConfiguration === 'all')
    closers.use(new CostLog({ sessions: () => engine.sessions(), clock: systemClock, log: getScope('ads') }));
  closers.use(await startDns({ settings, env, engine, identity }));
  return { engine, previews, debouncer, controllers, webhooks, server, recent };
}

/** The warnings about a document in force that depend on other documents. */
function warningsIn({ intake: { translation }, proxyConfigs }: Mesh) {
  return (key: ResourceKey) => [...translation.warningsOf(key), ...proxyConfigs.warningsOf(key)];
}

/** What analysis reads of the settings. */
function analyzedBy(settings: DiscoverySettings): Pick<AnalyzedParts, 'readsSecrets' | 'policyLanguage'> {
  return { readsSecrets: readsSecrets(settings), policyLanguage: policyLanguage(settings.meshLang) };
}

/** Whether the Secrets that Gateways name are read; gateways may read them themselves instead. */
function readsSecrets({ gatewaySecretsRole }: DiscoverySettings): boolean {
  return gatewaySecretsRole === '';
}

/** The HTTP addresses show what is served. */
function show({ settings, env, metrics, status }: Program, read: Mesh, serving: Serving): void {
  const { intake, inForce, publisher, identity } = read;
  const { engine, previews, server, controllers, webhooks, recent: activity } = serving;
  const { store, refusedPolicies } = intake;
  const history = settings.enableConfigDistributionTracking
    ? new DistributionHistory(settings.distributionHistoryRetentionMs)
    : undefined;
  if (history !== undefined) {
    publisher.onPublication(({ snapshot, resources }) => history.note(snapshot.version, resources, Date.now()));
  }
  const { leadership } = controllers;
  const sources = () => [...intake.status(), ...webhooks.status()];
  const showConfigInAdsz = settings.debugAdszConfig;
  const warningsOf = warningsIn(read);
  const replica = replicaName(env);
  const recent = shownActivity(activity, serving, identity);
  const shownAlways = { replica, showConfigInAdsz, ...analyzedBy(settings) };
  const settled = { ...shownAlways, mesh: () => inForce.mesh, injection: webhooks.injection };
  const state = { store, engine, server, refusedPolicies, warningsOf, previews };
  const parts = { ...state, ...settled, recent, sources, leadership, history };
  const debug = () => createDebugSource(parts);
  status.samples(() => sampleGauges(debug(), metrics));
  status.serves({
    isReady: () => webhooks.status().every(({ synced }) => synced),
    debug,
    callers: () => identity.callers,
    home: () => engine.snapshot.settings,
  });
}

/** What pages show of the last minutes. */
function shownActivity(activity: RecentActivity, { engine, server }: Serving, identity: MeshIdentity): Recent {
  const { now, setTimer: later } = systemClock;
  activity.sample(
    () => ({ queued: engine.stats().queued }),
    () => engine.sessions(),
  );
  return {
    proxies: new ProxyTable({
      statuses: () => server.statuses(),
      configurationOf: ({ node }) => configurationOf(engine.snapshot, node),
      now,
      later,
    }),
    pushes: () => activity.pushes.recent(),
    series: () => activity.series.recent(),
    events: (since) => activity.events.recent(since),
    contents: activity.contents,
    certificates: () => identity.certificates(),
  };
}

/**
 * From here on, changes go through all stages, beginning with those that arrived while the last stages were started.
 */
function followChanges(
  { files, inForce, intake, publisher, gatewayHosts }: Mesh,
  { debouncer, controllers, webhooks }: Serving,
): void {
  // A changed mesh file is published at once, with whatever else is pending.
  files.follow((update) => {
    if (update.mesh !== undefined) {
      inForce.mesh = update.mesh;
      for (const each of [intake.translation, webhooks, controllers]) each.configure(update.mesh);
    }
    publisher.publish(intake.take(), update);
  });
  gatewayHosts.follow((update) => publisher.publish(intake.take(), update));
  intake.follow(debouncer);
  debouncer.flush();
}
