/**
 * The mesh's root certificates in a ConfigMap of every namespace, for agents that mount it: written where it is
 * missing, outdated, edited or deleted. Namespaces and these ConfigMaps are followed by one watch each. Nothing is
 * written if all are up to date.
 */
import { createHash } from 'node:crypto';
import { oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import type { Outcome } from '../../core/scheduling/work-queue.ts';
import {
  ApiError,
  CONFIG_MAPS,
  Controller,
  Informer,
  type InformerChange,
  type KubernetesClient,
  type KubernetesObject,
  type ResourceType,
  v1Type,
} from '../../kubernetes/index.ts';
import { ROOT_CERT_KEY, ROOT_CONFIG_MAP } from '../../security/index.ts';

/** Namespaces of Kubernetes itself, where no workload of the mesh runs. */
const SYSTEM_NAMESPACES: readonly string[] = ['kube-system', 'kube-public', 'kube-node-lease'];

/** Limit of the writes in all namespaces: per second, and in a burst. */
const WRITES = { rate: 20, burst: 50 };
const CONCURRENCY = 2;

const NAMESPACES = v1Type('', 'Namespace', 'namespaces', { namespaced: false, metadataOnly: true });

export interface RootCertificatesOptions {
  readonly client: KubernetesClient;
  /** Namespace of the program, which gets the ConfigMap in any case. */
  readonly own: string;
  /** The other namespaces that get it; empty: all but those of Kubernetes. */
  readonly namespaces: readonly string[];
  /** The trust bundle in force, PEM. */
  readonly bundle: () => string;
  readonly log: Log;
}

/**
 * The digest of the certificates in a ConfigMap; undefined if it has none. Only the digest is kept, so that large
 * ConfigMaps take no memory.
 */
interface Published {
  readonly digest: string | undefined;
}

export class RootCertificates {
  readonly #options: RootCertificatesOptions;
  readonly #controller: Controller;
  /** Namespaces that get the ConfigMap, and are not being deleted. */
  readonly #namespaces: Informer<string>;
  readonly #published: Informer<Published>;
  readonly #failures: FailureLog;
  readonly #failing = new Set<string>();

  constructor(options: RootCertificatesOptions) {
    this.#options = options;
    const { client, log } = options;
    const { connection } = client;
    this.#controller = new Controller({
      connection,
      reconcile: (namespace) => this.#reconcile(namespace),
      concurrency: CONCURRENCY,
      budget: WRITES,
      onFailure: (namespace, error) => this.#failed(namespace, error),
    });
    const what = `ConfigMap ${ROOT_CONFIG_MAP} with the root certificates`;
    this.#failures = createFailureLog(
      log,
      `${what}: cannot be written in some namespaces`,
      `${what}: can be written again`,
    );
    const failuresOf = ({ plural }: ResourceType): FailureLog =>
      createFailureLog(
        log,
        `${plural} cannot be read, so ConfigMap ${ROOT_CONFIG_MAP} is not kept up to date`,
        `${plural} can be read again, so ConfigMap ${ROOT_CONFIG_MAP} is kept up to date again`,
      );
    this.#namespaces = new Informer<string>({
      connection,
      type: NAMESPACES,
      fromRetained: true,
      convert: (object) => (this.#isWanted(object) ? object.metadata.name : undefined),
      onChange: (changes) => this.#namespacesChanged(changes),
      failures: failuresOf(NAMESPACES),
    });
    this.#published = new Informer<Published>({
      connection,
      type: CONFIG_MAPS,
      name: ROOT_CONFIG_MAP,
      convert: publishedIn,
      onChange: (changes, isList) => {
        if (isList) this.bundleChanged();
        else for (const { namespace } of changes) this.#check(namespace);
      },
      failures: failuresOf(CONFIG_MAPS),
    });
  }

  start(): void {
    this.#namespaces.start();
    this.#published.start();
  }

  /** The trust bundle is another. */
  bundleChanged(): void {
    for (const namespace of this.#namespaces.values()) this.#check(namespace);
  }

  async close(): Promise<void> {
    await Promise.all([this.#controller, this.#namespaces, this.#published].map((each) => each.close()));
  }

  #namespacesChanged(changes: readonly InformerChange<string>[]): void {
    for (const { name, after } of changes) {
      if (after === undefined) {
        this.#controller.forget(name);
        this.#recovered(name);
      } else this.#check(name);
    }
  }

  #isWanted({ metadata: { name, deletionTimestamp } }: KubernetesObject): boolean {
    const { own, namespaces } = this.#options;
    if (deletionTimestamp !== undefined) return false;
    if (name === own) return true;
    return !SYSTEM_NAMESPACES.includes(name) && (namespaces.length === 0 || namespaces.includes(name));
  }

  #check(namespace: string): void {
    if (this.#isWrong(namespace)) this.#controller.add(namespace);
  }

  #isWrong(namespace: string): boolean {
    if (this.#namespaces.get('', namespace) === undefined || !this.#published.isSynced) return false;
    return this.#published.get(namespace, ROOT_CONFIG_MAP)?.digest !== digestOf(this.#options.bundle());
  }

  async #reconcile(namespace: string): Promise<Outcome> {
    if (!this.#isWrong(namespace)) return 'done';
    const wait = this.#controller.repair(namespace, this.#options.bundle());
    if (wait > 0) return wait;
    await this.#controller.mayWrite();
    if (!this.#isWrong(namespace)) return 'done';
    await this.#put(namespace, this.#options.bundle());
    this.#recovered(namespace);
    return 'done';
  }

  /** Everything else in the ConfigMap stays. The API accepts a key only once, in `data` or in `binaryData`. */
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
    const [first, second, otherwise] =
      this.#published.get(namespace, ROOT_CONFIG_MAP) !== undefined ? [patch, create, 404] : [create, patch, 409];
    try {
      await first();
    } catch (error) {
      // The watch is behind the server.
      if (!(error instanceof ApiError && error.status === otherwise)) throw error;
      await second();
    }
  }

  #failed(namespace: string, error: unknown): void {
    // The namespace is being deleted, which is noticed soon, or has been deleted.
    if (error instanceof ApiError && (error.status === 404 || isTerminating(error))) return;
    this.#failing.add(namespace);
    // One reason for all namespaces, so that the log has one line.
    this.#failures.failed(oneLineOf(error).replaceAll(`"${namespace}"`, '"…"'), { namespace });
  }

  #recovered(namespace: string): void {
    if (this.#failing.delete(namespace) && this.#failing.size === 0) this.#failures.succeeded();
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

function publishedIn({ data }: KubernetesObject): Published {
  const values: Readonly<Record<string, unknown>> = typeof data === 'object' && data !== null ? { ...data } : {};
  const { [ROOT_CERT_KEY]: value } = values;
  return { digest: typeof value === 'string' ? digestOf(value) : undefined };
}

/** Creating objects in a namespace that is being deleted is forbidden. */
function isTerminating({ status, message }: ApiError): boolean {
  return status === 403 && message.includes('being terminated');
}
