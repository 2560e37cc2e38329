/**
 * The mesh's root certificates in a ConfigMap of every namespace, for agents that mount it: written where it is
 * missing, outdated, edited or deleted. Namespaces and these ConfigMaps are followed by one watch each. Where all are
 * current, nothing is written.
 */
import { createHash } from 'node:crypto';
import { type Clock, sleep } from '../core/clock.ts';
import { oneLineOf } from '../core/errors.ts';
import { TokenBucket } from '../core/fairness/token-bucket.ts';
import { createFailureLog, type FailureLog, type Log } from '../core/log.ts';
import { type Outcome, WorkQueue } from '../core/work-queue.ts';
import {
  ApiError,
  ConnectionError,
  type KubernetesClient,
  type KubernetesObject,
  Reflector,
  type ReflectorHandlers,
  type ResourceType,
} from '../kubernetes/index.ts';
import { ROOT_CERT_KEY, ROOT_CONFIG_MAP } from '../security/index.ts';

/** Namespaces of Kubernetes itself, where no workload of the mesh runs. */
const SYSTEM_NAMESPACES: readonly string[] = ['kube-system', 'kube-public', 'kube-node-lease'];

/** Writes in all namespaces: a second, and at once. */
const WRITES = { rate: 20, burst: 50 };
/** Writes of one content in one namespace: a second program that writes something else must not be fought with. */
const REPAIRS = { rate: 1 / 30, burst: 5 };
const CONCURRENCY = 2;

const NAMESPACES: ResourceType = {
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
  metadataOnly: true,
};
const CONFIG_MAPS: ResourceType = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};

export interface RootCertificatesOptions {
  readonly client: KubernetesClient;
  /** Namespace of the program, which gets the ConfigMap in any case. */
  readonly own: string;
  /** The other namespaces that get it; empty: all but those of Kubernetes. */
  readonly namespaces: readonly string[];
  /** The trust bundle in force, PEM. */
  readonly bundle: () => string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** A ConfigMap: its namespace, and the digest of the certificates in it; undefined: it has none. */
interface Published {
  readonly namespace: string;
  readonly digest: string | undefined;
}

export class RootCertificates {
  readonly #options: RootCertificatesOptions;
  readonly #queue: WorkQueue;
  readonly #bucket: TokenBucket;
  readonly #reflectors: readonly Reflector<unknown>[];
  readonly #failures: FailureLog;
  readonly #failing = new Set<string>();
  /** Namespaces that exist and are not being deleted; undefined until they are listed. */
  #namespaces: Set<string> | undefined;
  /**
   * The digest of the certificates in the ConfigMap of each namespace, as the watch reported it; undefined until they
   * are listed. Authors of ConfigMaps cannot make this program keep their texts.
   */
  #published: Map<string, string | undefined> | undefined;
  /** The content that was written last into each namespace, and how often it may be written. */
  readonly #repairs = new Map<string, { readonly bundle: string; readonly bucket: TokenBucket }>();
  readonly #closing = new AbortController();

  constructor(options: RootCertificatesOptions) {
    this.#options = options;
    const { clock, random, log } = options;
    this.#bucket = new TokenBucket({ ...WRITES, now: clock.now });
    this.#queue = new WorkQueue({ work: (name) => this.#write(name), concurrency: CONCURRENCY, clock, random });
    const what = `ConfigMap ${ROOT_CONFIG_MAP} with the root certificates`;
    this.#failures = createFailureLog(log, `${what}: not written in all namespaces`, `${what}: written again`);
    this.#reflectors = [this.#followNamespaces(), this.#followConfigMaps()];
  }

  start(): void {
    for (const reflector of this.#reflectors) reflector.start();
  }

  /** The trust bundle is another. */
  bundleChanged(): void {
    if (this.#published === undefined) return;
    for (const name of this.#namespaces ?? []) this.#check(name);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#queue.close(), ...this.#reflectors.map((reflector) => reflector.close())]);
  }

  #followNamespaces(): Reflector<unknown> {
    return this.#follow<KubernetesObject>(NAMESPACES, undefined, {
      convert: (object) => object,
      onList: (objects) => {
        const wanted = objects.filter((object) => this.#isWanted(object)).map(({ metadata }) => metadata.name);
        this.#namespaces = new Set(wanted);
        for (const name of this.#repairs.keys()) if (!this.#namespaces.has(name)) this.#forget(name);
        this.bundleChanged();
      },
      onChanges: (changes) => {
        for (const change of changes) {
          const { metadata } = change.type === 'set' ? change.item : change.object;
          if (change.type === 'set' && this.#isWanted(change.item)) this.#namespaces?.add(metadata.name);
          else this.#forget(metadata.name);
          this.#check(metadata.name);
        }
      },
    });
  }

  #followConfigMaps(): Reflector<unknown> {
    return this.#follow<Published>(CONFIG_MAPS, `metadata.name=${ROOT_CONFIG_MAP}`, {
      convert: ({ metadata, data }) => {
        const values: Readonly<Record<string, unknown>> = typeof data === 'object' && data !== null ? { ...data } : {};
        const { [ROOT_CERT_KEY]: value } = values;
        const digest = typeof value === 'string' ? digestOf(value) : undefined;
        return { namespace: metadata.namespace ?? '', digest };
      },
      onList: (all) => {
        this.#published = new Map(all.map(({ namespace, digest }) => [namespace, digest]));
        this.bundleChanged();
      },
      onChanges: (changes) => {
        for (const change of changes) {
          const namespace = change.type === 'set' ? change.item.namespace : (change.object.metadata.namespace ?? '');
          if (change.type === 'set') this.#published?.set(namespace, change.item.digest);
          else this.#published?.delete(namespace);
          this.#check(namespace);
        }
      },
    });
  }

  #follow<T>(
    type: ResourceType,
    fieldSelector: string | undefined,
    handlers: Pick<ReflectorHandlers<T>, 'convert' | 'onList' | 'onChanges'>,
  ): Reflector<T> {
    const { client, clock, random, log } = this.#options;
    const failures = createFailureLog(
      log,
      `${type.plural} cannot be read, so ConfigMap ${ROOT_CONFIG_MAP} is not kept current`,
      `${type.plural} are read again for ConfigMap ${ROOT_CONFIG_MAP}`,
    );
    const { connection } = client;
    const selector = fieldSelector === undefined ? {} : { fieldSelector };
    return new Reflector<T>(
      { connection, type, clock, random, ...selector },
      {
        ...handlers,
        onFailure: (error) => {
          if (!isLost(error)) failures.failed(error.oneLine());
        },
        onRecovered: () => failures.succeeded(),
      },
    );
  }

  #isWanted({ metadata: { name, deletionTimestamp } }: KubernetesObject): boolean {
    const { own, namespaces } = this.#options;
    if (deletionTimestamp !== undefined) return false;
    if (name === own) return true;
    return !SYSTEM_NAMESPACES.includes(name) && (namespaces.length === 0 || namespaces.includes(name));
  }

  #forget(namespace: string): void {
    this.#namespaces?.delete(namespace);
    this.#repairs.delete(namespace);
    this.#recovered(namespace);
  }

  #check(namespace: string): void {
    if (this.#isWrong(namespace)) this.#queue.add(namespace);
  }

  #isWrong(namespace: string): boolean {
    if (this.#closing.signal.aborted) return false;
    if (this.#namespaces?.has(namespace) !== true || this.#published === undefined) return false;
    return this.#published.get(namespace) !== digestOf(this.#options.bundle());
  }

  async #write(namespace: string): Promise<Outcome> {
    if (!this.#isWrong(namespace)) return 'done';
    const wait = this.#bucketOf(namespace, this.#options.bundle()).take();
    if (wait > 0) return wait;
    await this.#pace();
    if (!this.#isWrong(namespace)) return 'done';
    try {
      await this.#put(namespace, this.#options.bundle());
    } catch (error) {
      return this.#failed(namespace, error);
    }
    // The watch reports what is there now: somebody may have edited it before this answer arrived.
    this.#recovered(namespace);
    return 'done';
  }

  /** Waits for the rate of all writes, in the order of the queue. */
  async #pace(): Promise<void> {
    const { signal } = this.#closing;
    for (let wait = this.#bucket.take(); wait > 0 && !signal.aborted; wait = this.#bucket.take()) {
      await sleep(this.#options.clock, wait, signal);
    }
  }

  #bucketOf(namespace: string, bundle: string): TokenBucket {
    const known = this.#repairs.get(namespace);
    if (known?.bundle === bundle) return known.bucket;
    const bucket = new TokenBucket({ ...REPAIRS, now: this.#options.clock.now });
    this.#repairs.set(namespace, { bundle, bucket });
    return bucket;
  }

  /** Everything else in the ConfigMap stays. The API accepts a key only once, as text or as binary data. */
  async #put(namespace: string, bundle: string): Promise<void> {
    const { client } = this.#options;
    const data = { [ROOT_CERT_KEY]: bundle };
    const create = async (): Promise<void> => {
      await client.create(CONFIG_MAPS, { metadata: { name: ROOT_CONFIG_MAP, namespace }, data }, { namespace });
    };
    const patch = async (): Promise<void> => {
      const type = 'application/merge-patch+json';
      const binaryData = { [ROOT_CERT_KEY]: null };
      await client.patch(CONFIG_MAPS, ROOT_CONFIG_MAP, { data, binaryData }, { namespace, type });
    };
    const [first, second, otherwise] = this.#published?.has(namespace) ? [patch, create, 404] : [create, patch, 409];
    try {
      await first();
    } catch (error) {
      // The watch is behind the server.
      if (!(error instanceof ApiError && error.status === otherwise)) throw error;
      await second();
    }
  }

  #failed(namespace: string, error: unknown): Outcome {
    // The namespace is being deleted, which is noticed soon, or has been deleted.
    if (error instanceof ApiError && (error.status === 404 || isTerminating(error))) return 'failed';
    if (isLost(error)) return 'failed';
    this.#failing.add(namespace);
    // One reason for all namespaces, so that the log has one line.
    const reason = oneLineOf(error).replaceAll(`"${namespace}"`, '"…"');
    this.#failures.failed(reason, { namespace });
    return error instanceof ApiError && error.retryAfterMs !== undefined ? error.retryAfterMs : 'failed';
  }

  #recovered(namespace: string): void {
    if (this.#failing.delete(namespace) && this.#failing.size === 0) this.#failures.succeeded();
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

/** The connection reports that itself, once for everything that uses it. */
function isLost(error: unknown): boolean {
  return error instanceof ConnectionError && error.lost;
}

/** Creating objects in a namespace that is being deleted is forbidden. */
function isTerminating({ status, message }: ApiError): boolean {
  return status === 403 && message.includes('being terminated');
}
