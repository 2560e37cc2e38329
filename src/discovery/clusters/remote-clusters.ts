/**
 * Other clusters whose services and workloads belong to the mesh. Secrets of the local cluster have the access to them:
 *
 *   Secrets ─▶ entries (one a cluster) ─▶ connections and sources, added, replaced and removed while running
 *
 * A cluster that cannot be read leaves the others as they are. New credentials of a cluster take effect when everything
 * has been read with them; until then, and if they never work, the previous ones stay in use.
 */
import { createHash } from 'node:crypto';
import type { Clock, Timer } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { SourceStatus } from '../../debug/index.ts';
import { type ClusterAccess, type Connection, KubernetesClient, readKubeconfig } from '../../kubernetes/index.ts';
import type { Kind } from '../../resources/index.ts';
import { pacedSource, replaceInSlices, type Source, type SourceSink } from '../../sources/index.ts';
import type { Sources } from '../config/sources.ts';
import { ownUid, refusingOwn } from './own-cluster.ts';
import { followRemoteSecrets, MAX_KUBECONFIG, type RemoteEntry, type RemoteSecrets } from './remote-secrets.ts';

/** Clusters that are read; each has a connection, and a watch for each kind. */
const MAX_CLUSTERS = 100;
/**
 * How long a start waits for other clusters, ms. A restart shall not serve proxies a part of their endpoints, and a
 * cluster that is down shall not keep the program from serving the others.
 */
const START_TIMEOUT_MS = 30_000;
/**
 * How long a cluster stays in force without its Secret, ms. A Secret that is deleted and created again, or gets the
 * other label, is absent for a moment.
 */
const REMOVAL_DELAY_MS = 5000;

export interface RemoteClustersOptions {
  /** To the local cluster. */
  readonly connection: Connection;
  /** Namespace of the Secrets. */
  readonly namespace: string;
  /** ID of the local cluster. */
  readonly cluster: string;
  readonly sources: Pick<Sources, 'add' | 'remove' | 'status'>;
  readonly connect: (access: ClusterAccess) => Connection;
  /** @param required kinds without which the source is not synced, even where they are forbidden */
  readonly createSource: (id: string, cluster: string, connection: Connection, required: ReadonlySet<Kind>) => Source;
  /** Called with the number of changes that wait because a cluster sends too many: see `pacedSource`. */
  readonly onDelayed: (changes: number) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export interface RemoteClient {
  readonly cluster: string;
  readonly client: KubernetesClient;
  /** The token by which this program authenticates itself there; undefined when it uses a certificate. */
  ownToken(): Promise<string | undefined>;
}

/** A cluster that is read. */
interface Remote {
  /** `namespace/name` of the Secret. */
  readonly secret: string;
  /** The digest of the kubeconfig. */
  readonly digest: string;
  readonly access: ClusterAccess;
  readonly client: KubernetesClient;
  /** The kinds that were listed: its replacement has to read them as well. */
  readonly kinds: ReadonlySet<Kind>;
  /** Whether it has been read once. */
  isRead: boolean;
  /** Whether it is the program's own cluster, which is not read a second time. */
  isOwn: boolean;
  /** Settles when it has been read once, or is not waited for any more. */
  readonly read: Promise<void>;
  /** The previous one, whose client is used until this one has been read. */
  before: Remote | undefined;
}

/** Why an entry is refused, in one line, as it is logged. */
interface Problem {
  readonly entry: RemoteEntry;
  readonly problem: string;
}

export type Remotes = Pick<RemoteClusters, 'start' | 'clients' | 'refused' | 'close'>;

/** No other cluster is read. */
export const NO_REMOTES: Remotes = {
  start: async () => {},
  clients: () => [],
  refused: () => [],
  close: async () => {},
};

export class RemoteClusters {
  readonly #options: RemoteClustersOptions;
  readonly #secrets: RemoteSecrets;
  /** By ID of the cluster. */
  readonly #remotes = new Map<string, Remote>();
  /** Refused entries, by their place. */
  #problems = new Map<string, Problem>();
  /** Timers of clusters without a Secret, by ID. */
  readonly #removals = new Map<string, Timer>();
  /** The newest entries, until they are applied. */
  #newest: readonly RemoteEntry[] | undefined;
  /** Entries are applied one list after the other. */
  #applying: Promise<void> = Promise.resolve();
  readonly #ending = Promise.withResolvers<void>();
  readonly #abort = new AbortController();
  /** UID of the local cluster, for the entries that are being applied; see `ownUid`. */
  #ownUid: Promise<string | undefined> | undefined;
  #closed = false;

  constructor(options: RemoteClustersOptions) {
    const { connection, namespace, log } = options;
    this.#options = options;
    this.#secrets = followRemoteSecrets({
      connection,
      namespace,
      log,
      onEntries: (entries) => {
        this.#newest = entries;
        this.#applying = this.#applying.then(() => this.#applyNewest());
      },
    });
  }

  /**
   * Begins to follow the Secrets. Resolves when all clusters have been read, or START_TIMEOUT_MS after the Secrets
   * were: those that are missing then are added when they can be read. Resolves also when this is closed.
   */
  async start(): Promise<void> {
    const { clock, log, sources } = this.#options;
    this.#secrets.start();
    await Promise.race([this.#secrets.settled, this.#ending.promise]);
    await this.#applying;
    const waiting = Promise.withResolvers<void>();
    const timer = clock.setTimer(START_TIMEOUT_MS, () => waiting.resolve());
    const read = Promise.all([...this.#remotes.values()].map((remote) => remote.read));
    await Promise.race([waiting.promise, read, this.#ending.promise]);
    timer.cancel();
    if (this.#closed) return;
    for (const [cluster, { isRead, isOwn, secret }] of this.#remotes) {
      if (isRead || isOwn) continue;
      const { health } = sources.status().find(({ id }) => id === sourceId(cluster)) ?? {};
      const reason = health?.ok === false ? `: ${health.reason}` : '';
      log.warn(`cluster ${cluster} (Secret ${secret}) has not been read yet${reason}; serving without it`);
    }
  }

  /** The clusters and their clients, with the credentials in force. */
  clients(): readonly RemoteClient[] {
    return [...this.#remotes].flatMap(([cluster, remote]) => {
      const used = inForce(remote);
      return used === undefined ? [] : { cluster, client: used.client, ownToken: () => used.access.token() };
    });
  }

  /** The entries of Secrets that are refused, each as a source that cannot be read. */
  refused(): readonly SourceStatus[] {
    return [...this.#problems.values()].map(({ entry, problem }) => {
      return { id: placeOf(entry), cluster: entry.cluster, synced: false, health: { ok: false, reason: problem } };
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#abort.abort();
    this.#ending.resolve();
    for (const timer of this.#removals.values()) timer.cancel();
    await this.#secrets.close();
    await this.#applying;
  }

  async #applyNewest(): Promise<void> {
    const entries = this.#newest;
    this.#newest = undefined;
    if (entries !== undefined && !this.#closed) await this.#apply(entries);
  }

  async #apply(entries: readonly RemoteEntry[]): Promise<void> {
    this.#ownUid = undefined;
    const problems = new Map<string, Problem>();
    const wanted = this.#choose(entries, problems);
    this.#removeOthers(wanted);
    for (const entry of wanted.values()) {
      if (this.#closed) return;
      try {
        await this.#use(entry);
      } catch (error) {
        const kept = consequenceOf(inForce(this.#remotes.get(entry.cluster)));
        problems.set(placeOf(entry), { entry, problem: `${oneLineOf(error)}; ${kept}` });
      }
    }
    for (const [place, { problem }] of problems) {
      if (this.#problems.get(place)?.problem !== problem) this.#options.log.error(problem);
    }
    this.#problems = problems;
  }

  /** One entry for each cluster: from the Secret in force, else from the oldest Secret. Others are problems. */
  #choose(entries: readonly RemoteEntry[], problems: Map<string, Problem>): ReadonlyMap<string, RemoteEntry> {
    const { cluster: own } = this.#options;
    const isInForce = ({ cluster, secret }: RemoteEntry): boolean => this.#remotes.get(cluster)?.secret === secret;
    const wanted = new Map<string, RemoteEntry>();
    const inOrder = [...entries.filter(isInForce), ...entries.filter((entry) => !isInForce(entry))];
    for (const entry of inOrder) {
      const { secret, cluster } = entry;
      const first = wanted.get(cluster);
      const place = placeOf(entry);
      const refuse = (expected: string) => problems.set(place, { entry, problem: `${place}: ${expected}` });
      if (cluster === own) refuse(`expected the ID of another cluster; ${own} is this one (--clusterID)`);
      else if (first !== undefined) {
        refuse(`expected one Secret for cluster ${cluster}; ${first.secret} is in force, not ${secret}`);
      } else if (wanted.size >= MAX_CLUSTERS) {
        refuse(`expected at most ${MAX_CLUSTERS} clusters; cluster ${cluster} is not read`);
      } else wanted.set(cluster, entry);
    }
    return wanted;
  }

  /** @throws CtlError naming Secret, key and field where the kubeconfig cannot be used */
  async #use(entry: RemoteEntry): Promise<void> {
    const { secret, cluster, text } = entry;
    const name = placeOf(entry);
    if (text === undefined || text.trim() === '') {
      const got = text === undefined ? '' : ', got none';
      const message = `expected a kubeconfig of at most ${MAX_KUBECONFIG} bytes${got}`;
      throw new CtlError('failed_precondition', message, { file: name });
    }
    const digest = createHash('sha256').update(text).digest('base64');
    const before = this.#remotes.get(cluster);
    if (before?.secret === secret && before.digest === digest) return;
    const access = await readKubeconfig({ text, name });
    this.#ownUid ??= this.#readOwnUid();
    const uid = await this.#ownUid;
    if (this.#closed) return;
    const { log, connect, createSource, clock, onDelayed } = this.#options;
    const connection = connect(access);
    const replacedOne = inForce(before);
    const replaced =
      replacedOne === undefined ? '' : ', which replaces the previous kubeconfig once the cluster has been read';
    log.info(`cluster ${cluster}: reading ${connection.server} with ${name}${replaced}`);
    const kinds = new Set<Kind>();
    const required = replacedOne?.kinds ?? new Set();
    const created = createSource(sourceId(cluster), cluster, connection, required);
    const noted = noting(pacedSource(created, { clock, log, onDelayed }), connection, kinds);
    const refused = Promise.withResolvers<void>();
    const onOwn = (): string => {
      remote.isOwn = true;
      refused.resolve();
      const own = `${connection.server} is the API server of this cluster`;
      const same = `${own} (it has the same Service default/kubernetes)`;
      const problem = `${name}: expected a kubeconfig of another cluster; ${same}; ${consequenceOf(replacedOne)}`;
      log.error(problem);
      return problem;
    };
    const source = uid === undefined ? noted : refusingOwn(noted, { uid, clock, onOwn });
    const added = this.#options.sources.add(source).then(
      () => {
        if (remote.isOwn) return;
        remote.isRead = true;
        remote.before = undefined;
      },
      (error: unknown) => log.error(`cluster ${cluster}: ${oneLineOf(error)}`),
    );
    const remote: Remote = {
      secret,
      digest,
      access,
      kinds,
      client: new KubernetesClient(connection),
      isRead: false,
      isOwn: false,
      read: Promise.race([added, refused.promise]),
      before: replacedOne,
    };
    this.#remotes.set(cluster, remote);
  }

  async #readOwnUid(): Promise<string | undefined> {
    const { connection, log } = this.#options;
    try {
      return await ownUid(connection, this.#abort.signal);
    } catch (error) {
      const consequence = 'a Secret with a kubeconfig of this same cluster would not be detected';
      if (!this.#closed) log.warn(`cannot read Service default/kubernetes: ${oneLineOf(error)}; ${consequence}`);
      return undefined;
    }
  }

  /** Removes the clusters without an entry, after a delay. */
  #removeOthers(wanted: ReadonlyMap<string, RemoteEntry>): void {
    for (const [cluster, timer] of this.#removals) {
      if (!wanted.has(cluster)) continue;
      timer.cancel();
      this.#removals.delete(cluster);
    }
    for (const cluster of this.#remotes.keys()) {
      if (wanted.has(cluster) || this.#removals.has(cluster)) continue;
      const timer = this.#options.clock.setTimer(REMOVAL_DELAY_MS, () => this.#remove(cluster));
      this.#removals.set(cluster, timer);
    }
  }

  #remove(cluster: string): void {
    const { log, sources } = this.#options;
    log.info(
      `cluster ${cluster}: no Secret has its kubeconfig any longer; all of its services and endpoints are removed`,
    );
    this.#remotes.delete(cluster);
    this.#removals.delete(cluster);
    sources.remove(sourceId(cluster)).catch((error: unknown) => log.error(`cluster ${cluster}: ${oneLineOf(error)}`));
  }
}

function sourceId(cluster: string): string {
  return `kubernetes/${cluster}`;
}

function placeOf({ secret, cluster }: RemoteEntry): string {
  return `Secret ${secret}, key ${cluster}`;
}

/** The one in use: the newest that has been read, or the only one. Undefined if that is refused. */
function inForce(remote: Remote | undefined): Remote | undefined {
  if (remote === undefined || remote.isRead) return remote;
  return remote.before ?? (remote.isOwn ? undefined : remote);
}

/** @param before what is in force; undefined: nothing */
function consequenceOf(before: Remote | undefined): string {
  return before === undefined ? 'the cluster is not read' : 'the previous kubeconfig stays in use';
}

/** A source that notes the kinds that it lists, and closes its connection when it is closed. */
function noting(source: Source, connection: Connection, kinds: Set<Kind>): Source {
  const noted = (sink: SourceSink): SourceSink => ({
    apply: (events, seenAt) => sink.apply(events, seenAt),
    replace: (list, seenAt) => {
      for (const kind of list.kinds ?? []) kinds.add(kind);
      sink.replace(list, seenAt);
    },
    replaceInSlices: (list, seenAt) => {
      for (const kind of list.kinds ?? []) kinds.add(kind);
      return replaceInSlices(sink, list, seenAt);
    },
    changing: (at) => sink.changing(at),
  });
  return {
    id: source.id,
    cluster: source.cluster,
    synced: source.synced,
    start: (sink) => source.start(noted(sink)),
    health: () => source.health(),
    async close() {
      try {
        await source.close();
      } finally {
        connection.close();
      }
    },
  };
}
