/**
 * The Secrets of one namespace that give access to other clusters: those with one of two labels. Each key is the ID of
 * a cluster, and its value a kubeconfig.
 */
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { ApiError, type Connection, ConnectionError, type KubernetesObject, Reflector } from '../kubernetes/index.ts';

/** The mesh's own label, and that of Istio's remote Secrets. */
const LABELS = ['mesh.io/multiCluster=true', 'istio/multiCluster=true'] as const;
const SECRETS = { group: '', version: 'v1', plural: 'secrets', kind: 'Secret', namespaced: true } as const;
/** Answers "forbidden" in a row before they are believed: a server that starts refuses until it has read its rules. */
const FORBIDDEN_ATTEMPTS = 3;
/** Largest kubeconfig, bytes: one with all certificates inside has about ten thousand. */
export const MAX_KUBECONFIG = 128 * 1024;

/** A cluster as a Secret describes it. */
export interface RemoteEntry {
  /** `namespace/name` of the Secret. */
  readonly secret: string;
  /** The key: ID of the cluster. */
  readonly cluster: string;
  /** The kubeconfig; undefined where it is larger than MAX_KUBECONFIG. */
  readonly text: string | undefined;
}

export interface RemoteSecretsOptions {
  readonly connection: Connection;
  readonly namespace: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
  /** All entries, those of the oldest Secrets first. Called once they have been listed, and after each change. */
  readonly onEntries: (entries: readonly RemoteEntry[]) => void;
}

export interface RemoteSecrets {
  start(): void;
  /** Resolves when the Secrets have been listed, or are known to be forbidden. */
  readonly settled: Promise<void>;
  close(): Promise<void>;
}

interface RemoteSecret {
  readonly name: string;
  /** RFC 3339. */
  readonly created: string;
  readonly entries: readonly RemoteEntry[];
}

export function followRemoteSecrets(options: RemoteSecretsOptions): RemoteSecrets {
  const settled = Promise.withResolvers<void>();
  const failures = new Failures(options);
  const watches = LABELS.map((label) => new LabelWatch(label, options, failures, () => update()));
  const update = (): void => {
    if (watches.every(({ isSettled }) => isSettled)) settled.resolve();
    if (!watches.every(({ secrets }) => secrets !== undefined)) return;
    // A Secret can have both labels.
    const secrets = new Map(watches.flatMap((watch) => [...(watch.secrets ?? [])]));
    const inOrder = [...secrets.values()].sort(
      (a, b) => Number(a.created > b.created) - Number(a.created < b.created) || (a.name < b.name ? -1 : 1),
    );
    options.onEntries(inOrder.flatMap(({ entries }) => entries));
  };
  return {
    start: () => {
      for (const watch of watches) watch.start();
    },
    settled: settled.promise,
    async close() {
      await Promise.all(watches.map((watch) => watch.close()));
    },
  };
}

/** The Secrets with one label. */
class LabelWatch {
  /** By name; undefined until they have been listed. */
  secrets: Map<string, RemoteSecret> | undefined;
  readonly #reflector: Reflector<RemoteSecret>;
  readonly #failures: Failures;
  #forbidden = 0;

  constructor(label: string, options: RemoteSecretsOptions, failures: Failures, onChange: () => void) {
    const { connection, namespace, clock, random } = options;
    this.#failures = failures;
    this.#reflector = new Reflector<RemoteSecret>(
      { connection, type: SECRETS, namespace, labelSelector: label, clock, random },
      {
        convert: (object) => secretOf(object, namespace),
        onList: (secrets) => {
          this.secrets = new Map(secrets.map((secret) => [secret.name, secret]));
          this.#recovered(label);
          onChange();
        },
        onChanges: (changes) => {
          for (const change of changes) {
            if (change.type === 'set') this.secrets?.set(change.item.name, change.item);
            else this.secrets?.delete(change.object.metadata.name);
          }
          onChange();
        },
        onFailure: (error, verb) => {
          // The source of the own cluster reports that.
          if (error instanceof ConnectionError && error.lost) return;
          this.#forbidden = error instanceof ApiError && error.status === 403 ? this.#forbidden + 1 : 0;
          const isBelieved = this.#forbidden === 0 || this.#forbidden >= FORBIDDEN_ATTEMPTS;
          if (isBelieved) failures.failed(label, `cannot ${verb}: ${error.oneLine()}`, this.secrets !== undefined);
          if (this.#forbidden === FORBIDDEN_ATTEMPTS) onChange();
        },
        onRecovered: () => this.#recovered(label),
      },
    );
  }

  get isSettled(): boolean {
    return this.secrets !== undefined || this.#forbidden >= FORBIDDEN_ATTEMPTS;
  }

  start(): void {
    this.#reflector.start();
  }

  close(): Promise<void> {
    return this.#reflector.close();
  }

  #recovered(label: string): void {
    this.#forbidden = 0;
    this.#failures.recovered(label);
  }
}

/** The log of what cannot be read: one line for all labels that fail for one reason. */
class Failures {
  readonly #log: Log;
  readonly #title: string;
  /** The reasons by label, as they were logged. */
  readonly #reasons = new Map<string, string>();

  constructor({ log, namespace }: RemoteSecretsOptions) {
    this.#log = log;
    this.#title = `Secrets of other clusters in namespace ${namespace}`;
  }

  failed(label: string, reason: string, wasRead: boolean): void {
    const isNew = ![...this.#reasons.values()].includes(reason);
    this.#reasons.set(label, reason);
    const consequence = wasRead ? 'what was read before stays in force' : 'no other cluster is read until they can be';
    if (isNew) this.#log.warn(`${this.#title}: ${reason}; ${consequence}`);
  }

  recovered(label: string): void {
    if (this.#reasons.delete(label) && this.#reasons.size === 0) this.#log.info(`${this.#title}: read again`);
  }
}

function secretOf({ metadata, data }: KubernetesObject, namespace: string): RemoteSecret {
  const { name } = metadata;
  const secret = `${namespace}/${name}`;
  const values = typeof data === 'object' && data !== null ? Object.entries(data) : [];
  const entries = values.map(([cluster, value]): RemoteEntry => {
    const bytes = Buffer.from(typeof value === 'string' ? value : '', 'base64');
    return { secret, cluster, text: bytes.length > MAX_KUBECONFIG ? undefined : bytes.toString('utf8') };
  });
  const { creationTimestamp: created } = metadata as { readonly creationTimestamp?: unknown };
  return { name, created: typeof created === 'string' ? created : '', entries };
}
