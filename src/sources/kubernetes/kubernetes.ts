/**
 * A Kubernetes API server as a source: Kubernetes' own kinds that describe workloads and services, and every kind of
 * the mesh that the server has.
 *
 *   definitions ─▶ kinds ─▶ collections (one reflector each) ─▶ feeds (one a kind) ─▶ lists and changes for the store
 *
 * Each kind is read independently: a kind that is forbidden, slow or broken does not affect the others, and what was
 * read stays in force until the server reports a change.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import { InternalError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { apiVersionOf, CONFIG_MAPS, type Connection, SECRETS } from '../../kubernetes/index.ts';
import {
  CORE_KINDS,
  type DocumentLimits,
  documentLimits,
  isSecurityKind,
  type Kind,
  MESH_KINDS,
  type ObjectAccess,
  type Resource,
  type ResourceEvent,
  type ResourceList,
  SERVICE_API_KINDS,
} from '../../resources/index.ts';
import { HealthLog } from '../health.ts';
import { ObjectReading } from '../pacing/object-reading.ts';
import { ReadingShares } from '../pacing/reading-shares.ts';
import { applyInSlices, replaceInSlices, type Source, type SourceHealth, type SourceSink } from '../source.ts';
import { Collection } from './collection.ts';
import { CONFIG_MAPS_IN, CredentialNames, SECRETS_IN } from './credential-names.ts';
import { Definitions } from './definitions.ts';
import { FailureReport } from './failures.ts';
import { KindFeed } from './kind-feed.ts';
import { ObjectQuota } from './object-quota.ts';
import { OrderedSink } from './ordered-sink.ts';
import { readingPace } from './reading-pace.ts';
import type { ServedTypes } from './served-types.ts';
import { coreTypes, definedKinds, INGRESS_TYPES, rankOf, retainedOf, type ServedType, workloadTypes } from './types.ts';

export interface KubernetesSourceOptions {
  /** Unique among the sources; default `kubernetes`. */
  readonly id?: string;
  /** The ID of the cluster, as in `--clusterID`. */
  readonly cluster: string;
  /** The connection to the cluster. It stays open when the source is closed. */
  readonly connection: Connection;
  readonly log: Log;
  readonly clock: Clock;
  /** Interval of searches for new kinds where their definitions may not be watched, ms; 0: never. */
  readonly resyncMs: number;
  /** Namespaces that are read; empty: all. */
  readonly namespaces: readonly string[];
  /** EndpointSlices in place of Endpoints. */
  readonly useEndpointSlice: boolean;
  /** Whether the kinds of the mesh are read; where they come from files, only Kubernetes' own kinds are. */
  readonly meshKinds: boolean;
  /**
   * Whether this is a remote cluster. Namespaces of remote clusters are not read: their labels only matter for mesh
   * resources, which are read from the local cluster.
   */
  readonly isRemote?: boolean;
  /** Kinds without which the source is not synced, even where they are forbidden; default: none. */
  readonly required?: ReadonlySet<Kind>;
  /** Whether the kinds of the Gateway API are read like those of the mesh; default: no. */
  readonly serviceApis?: boolean;
  /** Limits of a document; default: the usual limits. */
  readonly limits?: DocumentLimits;
  /**
   * Whether an Ingress is of the mesh, so that its Secrets are read. Ingresses and their classes are read where kinds
   * of the mesh are. Absent: they are not read.
   */
  readonly servesIngress?: (ingress: Resource<'Ingress'>) => boolean;
  /**
   * Whether a Gateway of the Gateway API is of the mesh, so that its Secrets and ConfigMaps are read. Absent: those of
   * all are.
   */
  readonly servesGateway?: (gateway: Resource<'KubernetesGateway'>) => boolean;
  /** Called when it becomes known whether Secrets, or ConfigMaps, of a name can be read. */
  readonly onAccess?: (kind: Kind, name: string, access: ObjectAccess) => void;
  /**
   * The memory that the objects may use, bytes; default: unlimited. Exceeding it is a failure to list or watch. With a
   * limit, the rate at which objects are read is limited as well.
   */
  readonly maxBytes?: number;
  /** The reading time by namespace, if several sources share it. */
  readonly shares?: ReadingShares;
  /** How long the server is asked to keep a watch open, seconds. */
  readonly watchSeconds?: number;
}

/** Delay after a change of resources that refer to other objects, ms: changes rarely come alone. */
const NAMED_SOON_MS = 100;
/** Maximum number of objects of a kind that are read by name, each with its own watch. */
const MAX_NAMED = 2000;

/** A kind of which only the objects are read to which other resources refer. */
interface NamedKind {
  readonly type: ServedType;
  readonly names: CredentialNames;
  isOverLimit: boolean;
}

/** Maximum number of different server warnings that are logged. */
const MAX_WARNINGS = 100;

const CORE: ReadonlySet<string> = new Set(CORE_KINDS);

/** Id of the source of the program's own cluster. */
export const OWN_CLUSTER_SOURCE = 'kubernetes';

export function createKubernetesSource(options: KubernetesSourceOptions): Source {
  return new KubernetesSource(options);
}

class KubernetesSource implements Source {
  readonly id: string;
  readonly cluster: string;
  readonly synced: Promise<void>;
  readonly #options: KubernetesSourceOptions;
  readonly #connection: Connection;
  readonly #quota: ObjectQuota | undefined;
  /** Absent if memory and rate are limited: objects are then read when they arrive. */
  readonly #reading: ObjectReading | undefined;
  readonly #pause: ReturnType<typeof readingPace> | undefined;
  readonly #unobserve: () => void;
  readonly #reachable: HealthLog;
  readonly #failures: FailureReport;
  readonly #firstSync = Promise.withResolvers<void>();
  /** By kind and namespace. */
  readonly #feeds = new Map<string, KindFeed>();
  /** By `<plural>.<group>`; one for each namespace that is read. */
  readonly #collections = new Map<string, readonly Collection[]>();
  #definitions: Definitions | undefined;
  #sink: OrderedSink | undefined;
  readonly #named: readonly NamedKind[];
  #namedTimer: Timer | undefined;
  readonly #warnings = new Set<string>();
  #isSynced = false;
  #closed = false;

  constructor(options: KubernetesSourceOptions) {
    const { id = OWN_CLUSTER_SOURCE, cluster, connection, clock, log } = options;
    this.id = id;
    this.cluster = cluster;
    this.#options = options;
    this.#quota = options.maxBytes === undefined ? undefined : new ObjectQuota(options.maxBytes);
    this.#pause = options.maxBytes === undefined ? undefined : readingPace(options.maxBytes, options);
    const { shares = new ReadingShares(clock.now) } = options;
    this.#reading = options.maxBytes === undefined ? new ObjectReading({ clock, shares }) : undefined;
    this.synced = this.#firstSync.promise;
    this.#reachable = new HealthLog(log, clock.now);
    const { server } = connection;
    this.#connection = connection;
    this.#unobserve = connection.observe({
      lost: (reason) => {
        const consequence = this.#isSynced ? 'what was read stays in force' : 'waiting until it can be reached';
        this.#reachable.bad(`the API server ${server} cannot be reached: ${reason}`, consequence);
      },
      reached: () => this.#reachable.good(`the API server ${server} can be reached again`),
    });
    this.#failures = new FailureReport(log, clock, server);
    this.#named = [
      { type: SECRETS, names: new CredentialNames(SECRETS_IN, options), isOverLimit: false },
      { type: CONFIG_MAPS, names: new CredentialNames(CONFIG_MAPS_IN, options), isOverLimit: false },
    ];
  }

  start(sink: SourceSink): void {
    this.#sink = new OrderedSink(this.#withNames(sink));
    const {
      useEndpointSlice,
      meshKinds,
      serviceApis = false,
      servesIngress,
      isRemote = false,
      resyncMs,
    } = this.#options;
    for (const type of isRemote ? workloadTypes(useEndpointSlice) : coreTypes(useEndpointSlice)) this.#add(type);
    if (!meshKinds) return;
    if (servesIngress !== undefined) for (const type of INGRESS_TYPES) this.#add(type);
    this.#definitions = new Definitions({
      connection: this.#connection,
      resyncMs,
      failures: this.#failures,
      kinds: definedKinds(serviceApis ? [...MESH_KINDS, ...SERVICE_API_KINDS] : MESH_KINDS),
      onTypes: (served, isGone) => this.#served(served, isGone),
    });
    this.#definitions.start();
  }

  health(): SourceHealth {
    if (!this.#reachable.current.ok) return this.#reachable.current;
    const { reason, since } = this.#failures;
    return reason === undefined ? { ok: true } : { ok: false, reason, ...(since === undefined ? {} : { since }) };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#failures.close();
    this.#namedTimer?.cancel();
    this.#reading?.close();
    this.#sink?.close();
    const collections = [...this.#collections.values()].flat();
    await Promise.all([this.#definitions?.close(), ...collections.map((collection) => collection.close())]);
    this.#unobserve();
  }

  #add(type: ServedType, objectName?: string): void {
    const { namespaces } = this.#options;
    const among = type.namespaced && namespaces.length > 0 ? namespaces : [undefined];
    this.#collections.set(
      nameOf(type, objectName),
      among.map((namespace) => this.#collection(type, namespace, objectName)),
    );
  }

  #collection(type: ServedType, namespace: string | undefined, objectName: string | undefined): Collection {
    const { clock, watchSeconds, required, limits = documentLimits(1), isRemote } = this.#options;
    const retain = isRemote === true ? undefined : retainedOf(type);
    return new Collection(type, {
      source: this.id,
      ...(namespace === undefined ? {} : { namespace }),
      ...(objectName === undefined ? {} : { objectName }),
      member: this.#feed(type, namespace).add(objectName ?? type.group, rankOf(type.group)),
      connection: this.#connection,
      clock,
      ...(retain === undefined ? {} : { retain }),
      ...(watchSeconds === undefined ? {} : { watchSeconds }),
      failures: this.#failures,
      ...(this.#quota === undefined ? {} : { quota: this.#quota }),
      ...(this.#reading === undefined ? {} : { reading: this.#reading }),
      ...(this.#pause === undefined ? {} : { pause: this.#pause }),
      isRequired: required?.has(type.kind) === true,
      limits,
      onWarning: (of, text) => this.#warned(of, text),
      onSettled: () => {
        this.#settle();
        if (objectName !== undefined) this.#reportAccess(type, objectName);
      },
      onAbsent: () => this.#definitions?.lookSoon(),
    });
  }

  /** A name is `forbidden` if it may not be read in one of the namespaces: an object of this name may exist there. */
  #reportAccess(type: ServedType, objectName: string): void {
    const collections = this.#collections.get(nameOf(type, objectName)) ?? [];
    const found = new Set(collections.map(({ access }) => access));
    const access = (['forbidden', 'pending', 'read'] as const).find((each) => found.has(each)) ?? 'pending';
    this.#options.onAccess?.(type.kind, objectName, access);
  }

  /** Writes each warning once, in however many namespaces the kind is read. */
  #warned({ kind, group }: ServedType, text: string): void {
    const name = group === '' ? kind : `${kind}.${group}`;
    const warning = `${name}: the API server warns: ${text}`;
    if (this.#warnings.has(warning) || this.#warnings.size === MAX_WARNINGS) return;
    this.#warnings.add(warning);
    const advice = kind === 'Endpoints' ? '; set CTL_USE_ENDPOINT_SLICE=true to read EndpointSlices instead' : '';
    this.#options.log.warn(`${warning}${advice}`);
  }

  #feed({ kind }: ServedType, namespace: string | undefined): KindFeed {
    const name = `${kind}/${namespace ?? ''}`;
    const known = this.#feeds.get(name);
    if (known !== undefined) return known;
    const sink = this.#sink;
    if (sink === undefined) throw new InternalError('the source has not been started');
    const feed = new KindFeed({
      source: this.id,
      kind,
      ...(namespace === undefined ? {} : { namespace }),
      isShared: !CORE.has(kind) || this.#named.some(({ type }) => type.kind === kind),
      now: this.#options.clock.now,
      sink,
    });
    this.#feeds.set(name, feed);
    return feed;
  }

  /** Updates the names of referenced objects from what is reported. */
  #withNames(sink: SourceSink): SourceSink {
    const listed = (list: ResourceList): void => {
      if (this.#named.filter(({ names }) => names.replace(list)).length > 0) this.#followNamedSoon();
    };
    const changed = (events: readonly ResourceEvent[]): void => {
      if (this.#named.filter(({ names }) => names.apply(events)).length > 0) this.#followNamedSoon();
    };
    return {
      apply: (events, seenAt) => {
        sink.apply(events, seenAt);
        changed(events);
      },
      applyInSlices: (events, seenAt) => {
        const applied = applyInSlices(sink, events, seenAt);
        if (applied === undefined) changed(events);
        return applied?.then(() => changed(events));
      },
      replace: (list, seenAt) => {
        sink.replace(list, seenAt);
        listed(list);
      },
      replaceInSlices: (list, seenAt) => {
        const applied = replaceInSlices(sink, list, seenAt);
        if (applied === undefined) listed(list);
        return applied?.then(() => listed(list));
      },
      changing: (at) => sink.changing(at),
    };
  }

  #followNamedSoon(): void {
    if (!this.#isSynced || this.#closed || this.#namedTimer !== undefined) return;
    this.#namedTimer = this.#options.clock.setTimer(NAMED_SOON_MS, () => {
      this.#namedTimer = undefined;
      for (const kind of this.#named) this.#followNamed(kind);
    });
  }

  /** Follows each referenced object, and stops following objects that are no longer referenced. */
  #followNamed(kind: NamedKind): void {
    const { type, names } = kind;
    const { count } = names;
    const chosen = names.choose(MAX_NAMED, (name) => this.#collections.has(nameOf(type, name)));
    const isOverLimit = count > chosen.length;
    if (isOverLimit && !kind.isOverLimit) {
      const limit = `only ${MAX_NAMED} are read, in equal shares by namespace`;
      this.#options.log.warn(`${count} ${type.kind}s are named by other resources; ${limit}`);
    }
    kind.isOverLimit = isOverLimit;
    const wanted = new Set(chosen.map((name) => nameOf(type, name)));
    for (const name of chosen) if (!this.#collections.has(nameOf(type, name))) this.#add(type, name);
    for (const [name, collections] of this.#collections) {
      if (collections[0]?.type !== type || wanted.has(name)) continue;
      this.#collections.delete(name);
      for (const collection of collections) void collection.remove();
      this.#options.onAccess?.(type.kind, name.slice(name.indexOf('/') + 1), 'pending');
    }
  }

  /** Follows new kinds, and stops following kinds that no longer exist. */
  #served({ types }: ServedTypes, isGone: (name: string) => boolean): void {
    const { log } = this.#options;
    for (const [name, type] of types) {
      const [known, ...others] = this.#collections.get(name) ?? [];
      if (known === undefined) {
        if (this.#isSynced) log.info(`${type.kind} (${apiVersionOf(type)}) is now defined and read`);
        this.#add(type);
      } else if (known.type.version !== type.version) {
        for (const collection of [known, ...others]) void collection.retype(type);
      }
    }
    for (const [name, collections] of this.#collections) {
      // A collection that can be read still exists, even if discovery does not list it.
      if (collections.some(({ type, isAbsent }) => CORE.has(type.kind) || !isAbsent) || !isGone(name)) continue;
      this.#collections.delete(name);
      log.info(`${name}: the definition and all objects of the kind were deleted`);
      for (const collection of collections) void collection.remove();
    }
    this.#settle();
  }

  #settle(): void {
    if (this.#isSynced || this.#closed || this.#definitions?.isSettled === false) return;
    const isSettled = (): boolean => [...this.#collections.values()].flat().every((each) => each.isSettled);
    if (!isSettled()) return;
    // Known only when all resources that may refer to them have been read.
    for (const kind of this.#named) this.#followNamed(kind);
    if (!isSettled()) return;
    this.#isSynced = true;
    const { log, connection, meshKinds } = this.#options;
    const kinds = [...this.#collections.values()].flatMap(([first]) => (first === undefined ? [] : first.type.kind));
    log.info(`read ${new Set(kinds).size} kinds from the API server ${connection.server}`);
    if (meshKinds && kinds.every((kind) => CORE.has(kind))) {
      log.warn('the API server serves no kinds of the mesh: apply their CustomResourceDefinitions');
    } else if (meshKinds) {
      const missing = MESH_KINDS.filter((kind) => isSecurityKind(kind) && !kinds.includes(kind));
      if (missing.length > 0)
        log.warn(`the API server does not serve ${missing.join(', ')}: no policies of these kinds are in force`);
    }
    this.#firstSync.resolve();
  }
}

function nameOf({ plural, group }: ServedType, objectName?: string): string {
  return objectName === undefined ? `${plural}.${group}` : `${plural}.${group}/${objectName}`;
}
