/**
 * The running discovery service: inputs → store → debounce → publisher → engine → xDS server, with its HTTP addresses
 * beside it. What is here is wiring and the order of starting and stopping; what each part does is in its own file.
 */

import { Registry } from 'prom-client';
import { buildInfo } from '../core/build-info.ts';
import { systemClock } from '../core/clock.ts';
import type { DebugSource } from '../debug/index.ts';
import type { GrpcListener } from '../grpc/index.ts';
import { getScope } from '../logging/index.ts';
import { Model } from '../model/index.ts';
import { collectProcessMetrics, createMetrics, type Metrics, recordBuild } from '../observe/index.ts';
import { Engine, type Generator, InlineGenerator, type PoolGenerator, type Publication } from '../push/index.ts';
import { KEY_SET_SOURCE } from '../resources/index.ts';
import { type DiscoverySettings, type Environment, parseListenAddress } from '../settings/index.ts';
import type { SourceIdentity, SourceSink } from '../sources/index.ts';
import {
  type AppliedSummary,
  createDebouncer,
  createStore,
  type Debouncer,
  SecurityHold,
  type Store,
} from '../store/index.ts';
import { createXdsServer, type XdsServer } from '../xds/index.ts';
import { plainAddresses, reachesOthers, shownListeners } from './addresses.ts';
import { DebugAccess } from './debug-access.ts';
import { createDebugSource, findingsOf } from './debug-source.ts';
import { DistributionHistory } from './distribution.ts';
import { problemLog, sharedLog, takeoverLog, warningLog } from './document-log.ts';
import { FindingLog } from './finding-log.ts';
import { type GaugeSource, sampleGauges } from './gauges.ts';
import { startGenerationPool } from './generation-pool.ts';
import { type HttpServers, type Listening, startHttpServers } from './http-servers.ts';
import { type MeshIdentity, openIdentity } from './identity.ts';
import {
  checkRegistries,
  configuredSources,
  createSources,
  type MeshFiles,
  openMeshFiles,
  type Sources,
} from './inputs.ts';
import { followKeySets, type KeySets } from './key-sets.ts';
import { modelSettings, rootNamespaceOf } from './model-settings.ts';
import {
  debounceHooks,
  engineObserver,
  ignoredEndpointsLog,
  logNameConflicts,
  publishFaults,
  refusalLog,
  SourceMeter,
  xdsObserver,
} from './observers.ts';
import { maxConnections } from './open-files.ts';
import { type MeshUpdate, mergedUpdate, Publisher } from './publisher.ts';
import { PushLog } from './push-log.ts';
import { openStateDirectory } from './state-directory.ts';

/** Parts that can be stopped, in the order in which they were started. */
type Closer = () => Promise<void> | void;

interface Running {
  readonly store: Store;
  readonly engine: Engine;
  readonly publisher: Publisher;
  readonly debouncer: Debouncer;
  readonly server: XdsServer;
}

export class DiscoveryProgram {
  readonly #settings: DiscoverySettings;
  readonly #env: Environment;
  readonly #registry = new Registry();
  readonly #metrics: Metrics = createMetrics(this.#registry);
  readonly #meter = new SourceMeter(this.#metrics);
  /** Undefined when distribution is not tracked. */
  readonly #history: DistributionHistory | undefined;
  readonly #closers: Closer[] = [];
  #running: Running | undefined;
  #identity: MeshIdentity | undefined;
  #keySets: KeySets | undefined;
  readonly #logIgnoredEndpoints = ignoredEndpointsLog();
  #hold: SecurityHold | undefined;
  #sources: Sources | undefined;
  #publishedAt: number | undefined;
  readonly #pushes = new PushLog({ write: (line) => getScope('ads').info(line), later: systemClock.setTimer });

  constructor(settings: DiscoverySettings, env: Environment) {
    this.#settings = settings;
    this.#env = env;
    this.#history = settings.enableConfigDistributionTracking
      ? new DistributionHistory(settings.distributionHistoryRetentionMs)
      : undefined;
  }

  /** Resolves when proxies are served. Rejects with CtlError when an address or a file cannot be had. */
  async start(): Promise<void> {
    checkRegistries(this.#settings);
    // They load their code while the mesh is read.
    const pool = startGenerationPool(this.#settings, this.#metrics);
    if (pool !== undefined) this.#closers.push(() => pool.close());
    const http = await this.#startHttp();
    let early: MeshUpdate | undefined;
    const onUpdate = (update: MeshUpdate): void => {
      if (this.#running === undefined) early = mergedUpdate(early, update);
      else this.#publishMesh(this.#running, update);
    };
    const files = await openMeshFiles(this.#settings, {
      onMesh: (mesh, at) => onUpdate({ mesh, at }),
      onNetworks: (networks, at) => onUpdate({ networks, at }),
    });
    this.#closers.push(() => files.close());
    const hold = await this.#openHold(files);
    const sources = createSources(configuredSources(this.#settings));
    const store = this.#createStore(files, sources, hold);
    // Side by side: making a root's key takes about as long as reading a mesh.
    const [identity] = await Promise.all([this.#openIdentity(files), this.#openSources(sources, store)]);
    hold.synced();
    const keySets = this.#followKeySets(store);
    const model = Model.empty(modelSettings(this.#settings, files.mesh), files.mesh, files.networks);
    const publisher = this.#startPublisher(store, model);
    await keySets.first();
    publisher.publish(store.take());
    const engine = this.#startEngine(model, pool);
    const debouncer = this.#startDebouncer(store, publisher);
    const server = await this.#startXds(engine, identity);
    this.#running = { store, engine, publisher, debouncer, server };
    // What came while the engine was started.
    if (early !== undefined) this.#publishMesh(this.#running, early);
    if (store.hasPending()) debouncer.flush();
    server.setServing(true);
    const { size } = publisher.snapshot.services;
    getScope('default').info(`serving ${size} services, ${store.problems().length} documents refused`);
    this.#logAddresses(http.listening, server, identity);
  }

  /** Ends everything, streams first: what is being written goes out, within TERMINATION_DRAIN_DURATION_SECONDS. */
  async stop(): Promise<void> {
    this.#running?.debouncer.stop();
    for (const close of this.#closers.splice(0).reverse()) await close();
    this.#running = undefined;
  }

  /** Every address that listens; and once, as a warning, what anybody may have who reaches one. */
  #logAddresses(http: Listening, server: XdsServer, { secured }: MeshIdentity): void {
    const { grpcAddr, secureGRPCAddr } = this.#settings;
    const ports = server.ports();
    const plain = plainAddresses(grpcAddr).map(({ host }, index) => ({ host, port: ports[index] ?? 0 }));
    const tls =
      secured === undefined ? [] : [{ host: parseListenAddress(secureGRPCAddr).host, port: ports.at(-1) ?? 0 }];
    const listening = shownListeners([['xDS in plain text', plain], ['xDS over TLS', tls], ...http]);
    getScope('default').info(`listening: ${listening}`);
    if (!plain.some(reachesOthers)) return;
    getScope('default').warn(
      `--grpcAddr ${grpcAddr} gives everyone who reaches it the configuration of any namespace; proxies that show a credential use ${secureGRPCAddr}`,
    );
  }

  /** What keeps refused policies from leaving their workloads open. */
  async #openHold({ mesh }: MeshFiles): Promise<SecurityHold> {
    const lastGood = await openStateDirectory(this.#settings.stateDir);
    this.#closers.push(() => lastGood.written());
    const rootNamespace = rootNamespaceOf(this.#settings, mesh);
    this.#hold = new SecurityHold({ lastGood, rootNamespace });
    return this.#hold;
  }

  #createStore({ mesh }: MeshFiles, sources: Sources, hold: SecurityHold): Store {
    const log = problemLog();
    const { clusterID: cluster, appNamespace } = this.#settings;
    return createStore({
      sources: [...sources.all, { id: KEY_SET_SOURCE, cluster }],
      cluster,
      appNamespaces: listOf(appNamespace),
      rootNamespace: rootNamespaceOf(this.#settings, mesh),
      hold,
      onRefused: (source, problem) => log.refused(problem, hold.of(source, problem.id)),
      onResolved: (_source, problem) => log.resolved(problem),
      onShared: sharedLog(),
      onTakeover: takeoverLog(),
      onWarnings: warningLog(),
    });
  }

  async #openSources(sources: Sources, store: Store): Promise<void> {
    this.#sources = sources;
    this.#closers.push(() => sources.close());
    await sources.open({
      sinkOf: (source) => this.#sinkOf(source, store),
      removed: ({ id }) => this.#applied(store.remove(id, systemClock.now())),
    });
  }

  #sinkOf(source: SourceIdentity, store: Store): SourceSink {
    const { id } = source;
    store.add(source);
    const take = (summary: AppliedSummary, seenAt: number | undefined): void => {
      this.#meter.received(summary.events);
      this.#applied(summary, seenAt);
    };
    return {
      apply: (events, seenAt) => take(store.apply(id, events), seenAt),
      replace: (list, seenAt) => take(store.replace(id, list), seenAt),
      changing: (at) => this.#running?.debouncer.changePending(at),
    };
  }

  #followKeySets(store: Store): KeySets {
    const keySets = followKeySets({
      refreshMs: this.#settings.jwtPubKeyRefreshIntervalMs,
      metrics: this.#metrics,
      onEvent: (event) => this.#applied(store.apply(KEY_SET_SOURCE, [event])),
    });
    this.#keySets = keySets;
    this.#closers.push(() => keySets.close());
    return keySets;
  }

  /** The publisher, with all that was read so far in the model's snapshot. */
  #startPublisher(store: Store, model: Model): Publisher {
    const publisher = new Publisher({
      model,
      now: systemClock.now,
      onPublication: (publication, milliseconds) => this.#published(publication, milliseconds),
      onFault: publishFaults(this.#metrics),
    });
    publisher.publish(store.take());
    return publisher;
  }

  #startEngine(model: Model, pool: PoolGenerator | undefined): Engine {
    const { snapshot } = model;
    pool?.begin(snapshot);
    pool?.prepare();
    const generator: Generator = pool ?? new InlineGenerator(snapshot);
    if (pool === undefined) this.#closers.push(() => generator.close());
    const findings = new FindingLog({
      findings: () => (this.#running === undefined ? [] : findingsOf(this.#running.engine)),
      log: getScope('model'),
      later: systemClock.setTimer,
    });
    const observer = engineObserver(this.#metrics, this.#pushes, () => findings.generated());
    const throttle = this.#settings.pushThrottle;
    const { now, setTimer: later } = systemClock;
    return new Engine({ snapshot, scopes: model, generator, throttle, now, later, random: Math.random, observer });
  }

  #startDebouncer(store: Store, publisher: Publisher): Debouncer {
    const { debounceAfterMs, debounceMaxMs, enableEdsDebounce } = this.#settings;
    return createDebouncer({
      afterMs: debounceAfterMs,
      maxMs: debounceMaxMs,
      edsDebounce: enableEdsDebounce,
      clock: systemClock,
      hooks: debounceHooks(this.#metrics),
      publish: (keys) => publisher.publish(store.take(keys === 'all' ? undefined : (key) => keys.has(key))),
    });
  }

  async #openIdentity({ mesh }: MeshFiles): Promise<MeshIdentity> {
    const { trustDomain } = modelSettings(this.#settings, mesh);
    const identity = await openIdentity(
      this.#settings,
      { trustDomain, trustDomainAliases: mesh.trustDomainAliases },
      this.#metrics,
    );
    this.#identity = identity;
    this.#closers.push(() => identity.close());
    return identity;
  }

  async #startXds(engine: Engine, { secured }: MeshIdentity): Promise<XdsServer> {
    const settings = this.#settings;
    const listeners: GrpcListener[] = plainAddresses(settings.grpcAddr);
    if (secured !== undefined) {
      listeners.push({ ...parseListenAddress(settings.secureGRPCAddr), tls: secured.tls });
    }
    const server = createXdsServer({
      engine,
      observer: xdsObserver(this.#metrics),
      listeners,
      ...(secured?.authenticate === undefined ? {} : { authenticate: secured.authenticate }),
      services: secured?.services ?? [],
      maxReceiveBytes: settings.grpcMaxRecvMsgSize,
      maxStreams: settings.grpcMaxStreams,
      maxConnections: maxConnections(settings.grpcMaxStreams),
      keepaliveIntervalMs: settings.keepaliveIntervalMs,
      keepaliveTimeoutMs: settings.keepaliveTimeoutMs,
      maxConnectionAgeMs: settings.keepaliveMaxServerConnectionAgeMs,
    });
    await server.start();
    this.#closers.push(() => server.close({ drainMs: settings.terminationDrainDurationSeconds * 1000 }));
    return server;
  }

  async #startHttp(): Promise<HttpServers> {
    recordBuild(this.#metrics, 'ctl-discovery', buildInfo());
    collectProcessMetrics(this.#registry);
    const sample = (): void => {
      const source = this.#debugSource();
      if (source !== undefined) sampleGauges(source, this.#metrics);
      this.#identity?.sample();
    };
    const servers = await startHttpServers({
      settings: this.#settings,
      env: this.#env,
      registry: this.#registry,
      metrics: this.#metrics,
      debug: () => this.#debugSource(),
      sources: () => this.#sources?.status() ?? [],
      access: this.#debugAccess(),
      sample,
    });
    this.#closers.push(() => servers.close());
    return servers;
  }

  #debugAccess(): DebugAccess {
    if (!this.#settings.debugAuth) {
      getScope('default').warn(
        'CTL_DEBUG_AUTH=false: the debug pages show the whole mesh to everyone who reaches them',
      );
    }
    const refused = refusalLog('default');
    return new DebugAccess({
      callers: () => this.#identity?.callers,
      home: () => this.#running?.engine.snapshot.settings,
      open: !this.#settings.debugAuth,
      refused: (address, error) =>
        refused(address.includes(':') ? `[${address}]` : address, error, 'a request for debug pages'),
    });
  }

  #applied(summary: AppliedSummary, seenAt?: number): void {
    this.#meter.applied(summary);
    this.#running?.debouncer.changed(summary.changed, seenAt);
  }

  /** A changed mesh file goes out at once, with whatever else is pending. */
  #publishMesh({ store, publisher }: Running, update: MeshUpdate): void {
    publisher.publish(store.take(), update);
  }

  #published(publication: Publication, milliseconds: number): void {
    const metrics = this.#metrics;
    const now = systemClock.now();
    metrics.ctl_stage_seconds.observe(milliseconds / 1000, { stage: 'snapshot' });
    metrics.cfg_runtime_processor_snapshots_published_total.inc();
    metrics.cfg_runtime_processor_snapshot_events_total.observe(publication.resources.length);
    if (this.#publishedAt !== undefined) {
      metrics.cfg_runtime_processor_snapshot_lifetime_duration_milliseconds.observe(now - this.#publishedAt);
    }
    this.#publishedAt = now;
    this.#keySets?.published(publication);
    logNameConflicts(publication.changes.nameConflicts);
    this.#logIgnoredEndpoints(publication.snapshot);
    // The first snapshot is what the engine starts from.
    const engine = this.#running?.engine;
    const known = engine?.snapshot.findings().endpointsWithoutPod ?? 0;
    const orphans = publication.snapshot.findings().endpointsWithoutPod - known;
    if (orphans > 0) metrics.ctl_orch_endpoints_with_no_pods.inc(orphans);
    if (engine === undefined) return;
    this.#history?.note(publication.snapshot.version, publication.resources, Date.now());
    this.#pushes.changed(publication.resources.map(({ key }) => key));
    engine.publish(publication);
  }

  #debugSource(): (DebugSource & GaugeSource) | undefined {
    const [running, hold, sources, history] = [this.#running, this.#hold, this.#sources, this.#history];
    if (running === undefined || hold === undefined || sources === undefined) return undefined;
    const { store, engine, server } = running;
    const showConfigInAdsz = this.#settings.debugAdszConfig;
    return createDebugSource({ store, engine, server, hold, sources, history, showConfigInAdsz });
  }
}

/** The entries of a comma-separated list. */
function listOf(text: string): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}
