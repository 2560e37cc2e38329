/**
 * The running discovery service. Data flows one way:
 *
 *   sources ─▶ store ─▶ snapshot ─▶ engine ─▶ xDS server ─▶ proxies
 *             intake   publisher
 *
 * This file connects these stations, starts them in this order and stops them in the opposite one. It also starts the
 * HTTP addresses, which read from all of them, and the certificate authority. What each part does is in its own file.
 */

import { Registry } from 'prom-client';
import { buildInfo } from '../core/build-info.ts';
import { systemClock } from '../core/clock.ts';
import type { DebugSource, SourceStatus } from '../debug/index.ts';
import { getScope } from '../logging/index.ts';
import { Model, type ModelChange } from '../model/index.ts';
import { collectProcessMetrics, createMetrics, type Metrics, recordBuild } from '../observe/index.ts';
import { Engine, type Generator, InlineGenerator, type PoolGenerator } from '../push/index.ts';
import { type MeshUpdate, mergedUpdate, type ResourceKey } from '../resources/index.ts';
import type { DiscoverySettings, Environment } from '../settings/index.ts';
import { createDebouncer, type Debouncer, type Store } from '../store/index.ts';
import type { WorkloadConnected, XdsServer } from '../xds/index.ts';
import { type Cluster, openCluster } from './clusters/cluster.ts';
import { type FollowedMeshFiles, followMeshFiles, type MeshFiles } from './config/mesh-files.ts';
import { modelSettings } from './config/model-settings.ts';
import { runDocumentEvents } from './controllers/document-events.ts';
import { type GatewayTask, runGatewayController } from './controllers/gateway-controller.ts';
import { runIngressStatuses } from './controllers/ingress-statuses.ts';
import { type MeshIdentity, openIdentity } from './identity/identity.ts';
import { followKeySets, type KeySets } from './identity/key-sets.ts';
import { DistributionHistory } from './pipeline/distribution.ts';
import { FindingLog } from './pipeline/finding-log.ts';
import { type GaugeSource, sampleGauges } from './pipeline/gauges.ts';
import { type Intake, openIntake } from './pipeline/intake.ts';
import { debounceHooks, engineObserver, publishProblems, refusalLog } from './pipeline/observers.ts';
import { publicationLog } from './pipeline/publications.ts';
import { Publisher } from './pipeline/publisher.ts';
import { PushLog } from './pipeline/push-log.ts';
import { createTranslation, type Translation } from './pipeline/translation.ts';
import { callerRanks } from './process/caller-ranks.ts';
import { Closers } from './process/closers.ts';
import { startGenerationPool } from './process/generation-pool.ts';
import { WorkloadRegistration } from './registration/registration.ts';
import { DebugAccess } from './serving/debug-access.ts';
import { createDebugSource, findingsOf } from './serving/debug-source.ts';
import { startDns } from './serving/dns.ts';
import type { ProgramState } from './serving/http-routes.ts';
import { type HttpServers, startHttpServers } from './serving/http-servers.ts';
import { logAddresses, startXdsServer } from './serving/xds-listeners.ts';
import { startWebhooks, type Webhooks } from './webhooks/webhooks.ts';

/** The stations, once all of them are connected. */
interface Pipeline {
  readonly store: Store;
  readonly publisher: Publisher;
  readonly debouncer: Debouncer;
  readonly engine: Engine;
  readonly server: XdsServer;
}

export class DiscoveryProgram {
  readonly #settings: DiscoverySettings;
  readonly #env: Environment;
  readonly #translation: Translation;
  readonly #registry = new Registry();
  readonly #metrics: Metrics = createMetrics(this.#registry);
  readonly #publications = publicationLog(this.#metrics, systemClock.now);
  readonly #pushes = new PushLog({ write: (line) => getScope('ads').info(line), later: systemClock.setTimer });
  /** Undefined when distribution is not tracked. */
  readonly #history: DistributionHistory | undefined;
  readonly #closers = new Closers();
  #cluster: Cluster | undefined;
  #files: FollowedMeshFiles | undefined;
  #intake: Intake | undefined;
  #identity: MeshIdentity | undefined;
  #keySets: KeySets | undefined;
  /** Undefined when they are not served. */
  #webhooks: Webhooks | undefined;
  #gateways: GatewayTask | undefined;
  #registration: WorkloadRegistration | undefined;
  /** Undefined until all stations are connected. */
  #pipeline: Pipeline | undefined;
  #stopping = false;
  /** The changes of the mesh files before that. */
  #earlyMesh: MeshUpdate | undefined;

  constructor(settings: DiscoverySettings, env: Environment) {
    this.#settings = settings;
    this.#env = env;
    this.#translation = createTranslation(settings, (key) => this.#intake?.store.get(key));
    this.#history = settings.enableConfigDistributionTracking
      ? new DistributionHistory(settings.distributionHistoryRetentionMs)
      : undefined;
  }

  /** Resolves when proxies are served. Rejects with CtlError when an address or a file cannot be used. */
  async start(): Promise<void> {
    const cluster = await this.#openCluster();
    // The workers load their code while the mesh is read.
    const pool = this.#startPool();
    const http = await this.#startHttp();
    const files = await this.#openMeshFiles(cluster);

    this.#translation.configure(files.mesh);
    const intake = await this.#openIntake(files, cluster);
    // At the same time: making a root's key takes about as long as reading a mesh.
    const [identity] = await Promise.all([this.#openIdentity(files, cluster, intake), intake.start()]);
    const model = Model.empty(modelSettings(this.#settings, files.mesh), files.mesh, files.networks);
    const publisher = this.#createPublisher(model);
    await this.#publishFirst(intake, publisher);
    const engine = this.#startEngine(model, pool);
    const debouncer = this.#startDebouncer(intake, publisher);
    // Ended after the drain, so that this replica leads until another serves its proxies.
    this.#runControllers(files, intake, engine, cluster);
    const webhooks = await this.#startWebhooks(files, identity, engine);
    const server = await this.#startXds(engine, identity);
    this.#closers.add(await startDns({ settings: this.#settings, env: this.#env, engine, identity }));

    this.#connect({ store: intake.store, publisher, debouncer, engine, server });
    server.setServing(true);
    const refused = intake.store.problems().length;
    getScope('default').info(`serving ${publisher.snapshot.services.size} services, ${refused} documents refused`);
    logAddresses(this.#settings, [...(webhooks?.listening ?? []), ...http.listening], server, identity);
  }

  /**
   * Ends everything: readiness fails first, then streams end one after the other within
   * TERMINATION_DRAIN_DURATION_SECONDS. Until its own stream ends, a proxy is sent every change.
   */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#registration?.stopping();
    await this.#closers.close();
    this.#pipeline = undefined;
  }

  async #openCluster(): Promise<Cluster | undefined> {
    const cluster = await openCluster(this.#settings, this.#env);
    if (cluster !== undefined) this.#closers.add(() => cluster.close());
    this.#cluster = cluster;
    return cluster;
  }

  /** Sources → store. The debouncer decides when what changed becomes the next snapshot. */
  async #openIntake({ mesh }: MeshFiles, cluster: Cluster | undefined): Promise<Intake> {
    const intake = await openIntake({
      settings: this.#settings,
      connection: cluster?.client.connection,
      mesh,
      serves: this.#translation,
      metrics: this.#metrics,
      onChanged: (keys, seenAt) => this.#pipeline?.debouncer.changed(keys, seenAt),
      onChangePending: (at) => this.#pipeline?.debouncer.changePending(at),
    });
    this.#intake = intake;
    this.#closers.add(() => intake.close());
    const registration = new WorkloadRegistration({ settings: this.#settings, cluster, apply: intake.applyRegistered });
    this.#registration = registration;
    this.#closers.add(() => registration.close());
    return intake;
  }

  #startDebouncer({ store }: Intake, publisher: Publisher): Debouncer {
    const { debounceAfterMs, debounceMaxMs, enableEdsDebounce } = this.#settings;
    const debouncer = createDebouncer({
      afterMs: debounceAfterMs,
      maxMs: debounceMaxMs,
      edsDebounce: enableEdsDebounce,
      clock: systemClock,
      hooks: debounceHooks(this.#metrics),
      publish: (keys) => publisher.publish(this.#take(store, keys === 'all' ? undefined : (key) => keys.has(key))),
    });
    this.#closers.add(() => debouncer.stop());
    return debouncer;
  }

  /** Changes of the store, with those of documents that are derived from them. */
  #take(store: Store, filter?: (key: ResourceKey) => boolean): MeshUpdate {
    return this.#translation.apply(store.take(filter));
  }

  /** Store → snapshot. */
  #createPublisher(model: Model): Publisher {
    return new Publisher({
      model,
      now: systemClock.now,
      onPublication: (publication, milliseconds) => this.#published(publication, milliseconds),
      onProblem: publishProblems(this.#metrics),
    });
  }

  /**
   * Publishes the documents that the sources listed, then the key sets that their policies refer to, and the workloads
   * of the last run that their groups admit. The engine starts from there.
   */
  async #publishFirst({ store, applyKeySet }: Intake, publisher: Publisher): Promise<void> {
    const keySets = followKeySets({
      refreshMs: this.#settings.jwtPubKeyRefreshIntervalMs,
      metrics: this.#metrics,
      onEvent: applyKeySet,
    });
    this.#keySets = keySets;
    this.#closers.add(() => keySets.close());
    publisher.publish(this.#take(store));
    await Promise.all([keySets.first(), this.#registration?.restored()]);
    publisher.publish(this.#take(store));
  }

  /** Snapshot → engine, which pushes to each proxy what changed for it. */
  #published(publication: ModelChange, milliseconds: number): void {
    const { snapshot, resources } = publication;
    this.#publications.published(publication, milliseconds);
    this.#keySets?.published(publication);
    this.#registration?.published(publication);
    if (this.#pipeline === undefined) return;
    this.#history?.note(snapshot.version, resources, Date.now());
    this.#pushes.changed(resources.map(({ key }) => key));
    this.#pipeline.engine.publish(publication);
  }

  #runControllers({ mesh }: MeshFiles, { refusedDocuments }: Intake, engine: Engine, cluster?: Cluster): void {
    if (cluster === undefined) return;
    const inputs = { settings: this.#settings, cluster, translation: this.#translation, mesh };
    runDocumentEvents(inputs, refusedDocuments);
    this.#gateways = runGatewayController({ ...inputs, version: () => engine.snapshot.version });
    runIngressStatuses(inputs);
    // All tasks at the same time: each may wait for an API server that does not answer.
    this.#closers.add(async () => void (await Promise.all([cluster.leadership.close(), this.#gateways?.close()])));
  }

  #startPool(): PoolGenerator | undefined {
    const pool = startGenerationPool(this.#settings, this.#metrics);
    if (pool !== undefined) this.#closers.add(() => pool.close());
    return pool;
  }

  #startEngine(model: Model, pool: PoolGenerator | undefined): Engine {
    const { snapshot } = model;
    pool?.begin(snapshot);
    pool?.prepare();
    const generator: Generator = pool ?? new InlineGenerator(snapshot);
    if (pool === undefined) this.#closers.add(() => generator.close());
    const findings = new FindingLog({
      findings: () => (this.#pipeline === undefined ? [] : findingsOf(this.#pipeline.engine)),
      log: getScope('model'),
      later: systemClock.setTimer,
    });
    const observer = engineObserver(this.#metrics, this.#pushes, () => findings.generated());
    const throttle = this.#settings.pushThrottle;
    const { now, setTimer: later } = systemClock;
    return new Engine({ snapshot, scopes: model, generator, throttle, now, later, random: Math.random, observer });
  }

  /** Engine → proxies. */
  async #startXds(engine: Engine, identity: MeshIdentity): Promise<XdsServer> {
    const followers: readonly WorkloadConnected[] = [
      (node) => this.#registration?.connected(node),
      (node, proxy) => this.#gateways?.connected(node, proxy),
    ];
    const server = await startXdsServer(this.#settings, engine, identity, this.#metrics, followers);
    this.#closers.add(() => server.close({ drainMs: this.#settings.terminationDrainDurationSeconds * 1000 }));
    return server;
  }

  /** They answer until the streams have ended. */
  async #startWebhooks({ mesh }: MeshFiles, identity: MeshIdentity, engine: Engine): Promise<Webhooks | undefined> {
    const [settings, metrics, cluster, { certificate }] = [this.#settings, this.#metrics, this.#cluster, identity];
    if (settings.httpsAddr === '' || certificate === undefined) return undefined;
    const [rankOf, stopping] = [callerRanks(engine), () => this.#stopping];
    const webhooks = await startWebhooks({ settings, mesh, certificate, cluster, metrics, rankOf, stopping });
    this.#webhooks = webhooks;
    this.#closers.add(() => webhooks.close());
    return webhooks;
  }

  /** From here on changes go through all stations, first those that came while the engine was started. */
  #connect(pipeline: Pipeline): void {
    this.#pipeline = pipeline;
    if (this.#earlyMesh !== undefined) this.#publishMesh(pipeline, this.#earlyMesh);
    pipeline.debouncer.flush();
  }

  async #openMeshFiles(cluster: Cluster | undefined): Promise<MeshFiles> {
    const onUpdate = (update: MeshUpdate): void => {
      if (this.#pipeline === undefined) this.#earlyMesh = mergedUpdate(this.#earlyMesh, update);
      else this.#publishMesh(this.#pipeline, update);
    };
    const files = followMeshFiles(this.#settings, cluster?.client.connection, {
      onMesh: (mesh, eventTime) => onUpdate({ changes: [], mesh, eventTime }),
      onNetworks: (networks, eventTime) => onUpdate({ changes: [], networks, eventTime }),
    });
    this.#files = files;
    this.#closers.add(() => files.close());
    return await files.first;
  }

  /** A changed mesh file is published at once, with whatever else is pending. */
  #publishMesh({ store, publisher }: Pipeline, update: MeshUpdate): void {
    if (update.mesh !== undefined) {
      this.#translation.configure(update.mesh);
      this.#webhooks?.configure(update.mesh);
      this.#gateways?.configure(update.mesh);
    }
    publisher.publish(this.#take(store), update);
  }

  async #openIdentity({ mesh }: MeshFiles, cluster: Cluster | undefined, { remotes }: Intake): Promise<MeshIdentity> {
    const { trustDomain } = modelSettings(this.#settings, mesh);
    const { trustDomainAliases } = mesh;
    const identity = await openIdentity(
      this.#settings,
      { trustDomain, trustDomainAliases },
      this.#metrics,
      cluster,
      remotes,
    );
    this.#identity = identity;
    this.#closers.add(() => identity.close());
    return identity;
  }

  async #startHttp(): Promise<HttpServers> {
    recordBuild(this.#metrics, 'ctl-discovery', buildInfo());
    collectProcessMetrics(this.#registry);
    const servers = await startHttpServers({
      settings: this.#settings,
      env: this.#env,
      registry: this.#registry,
      metrics: this.#metrics,
      state: () => this.#state(),
      debug: () => this.#debugSource(),
      sources: () => this.#inputs(),
      access: this.#debugAccess(),
      sample: () => {
        const source = this.#debugSource();
        if (source !== undefined) sampleGauges(source, this.#metrics);
        this.#identity?.sample();
      },
    });
    this.#closers.add(() => servers.close());
    return servers;
  }

  #state(): ProgramState {
    if (this.#stopping) return 'stopping';
    const webhooks = this.#webhooks?.status().every(({ synced }) => synced) ?? true;
    return this.#pipeline !== undefined && webhooks ? 'ready' : 'starting';
  }

  /** What is read before the program is ready. */
  #inputs(): SourceStatus[] {
    const inputs = [this.#files, this.#intake?.sources, this.#webhooks].flatMap((each) => each?.status() ?? []);
    if (this.#cluster === undefined) return inputs;
    // Its key is in the cluster as well.
    const [id, synced] = ['the certificate authority', this.#identity !== undefined] as const;
    return [...inputs, { id, cluster: this.#settings.clusterID, synced, health: { ok: true } }];
  }

  #debugAccess(): DebugAccess {
    const open = !this.#settings.debugAuth;
    if (open) {
      getScope('default').warn(
        'CTL_DEBUG_AUTH=false: the debug pages show the whole mesh to everyone who reaches them',
      );
    }
    const refused = refusalLog('default');
    return new DebugAccess({
      callers: () => this.#identity?.callers,
      home: () => this.#pipeline?.engine.snapshot.settings,
      open,
      refused: (address, error) =>
        refused(address.includes(':') ? `[${address}]` : address, error, 'a request for debug pages'),
    });
  }

  /** Undefined while the mesh is being read. */
  #debugSource(): (DebugSource & GaugeSource) | undefined {
    const [pipeline, intake, history] = [this.#pipeline, this.#intake, this.#history];
    if (pipeline === undefined || intake === undefined) return undefined;
    const { store, engine, server } = pipeline;
    const { refusedPolicies } = intake;
    const sources = () => [...intake.status(), ...(this.#webhooks?.status() ?? [])];
    const showConfigInAdsz = this.#settings.debugAdszConfig;
    const leadership = this.#cluster?.leadership;
    return createDebugSource({
      store,
      engine,
      server,
      refusedPolicies,
      translation: this.#translation,
      sources,
      leadership,
      history,
      showConfigInAdsz,
    });
  }
}
