/**
 * The Secrets of one namespace that give access to other clusters: those with one of two labels. Each key is the ID of
 * a cluster, and its value a kubeconfig.
 */
import { createSharedFailureLog, type Log } from '../../core/log.ts';
import { type Connection, Informer, type KubernetesObject, SECRETS } from '../../kubernetes/index.ts';

/** The mesh's own label, and that of Istio's remote Secrets. */
const LABELS = ['mesh.io/multiCluster=true', 'istio/multiCluster=true'] as const;
/** Maximum size of a kubeconfig, bytes: one that contains all certificates has about ten thousand. */
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

export function followRemoteSecrets({ connection, namespace, log, onEntries }: RemoteSecretsOptions): RemoteSecrets {
  const settled = Promise.withResolvers<void>();
  const forbidden = new Set<string>();
  const title = `Secrets of other clusters in namespace ${namespace}`;
  const failuresOf = createSharedFailureLog(
    log,
    `${title} cannot be read, so only clusters that were read before are known`,
    `${title} can be read again`,
  );
  const update = (): void => {
    const areSettled = [...informers].every(([label, { isSynced }]) => isSynced || forbidden.has(label));
    if (areSettled) settled.resolve();
    const all = [...informers.values()];
    if (!all.every(({ isSynced }) => isSynced)) return;
    // A Secret can have both labels.
    const secrets = new Map(all.flatMap((informer) => [...informer.values()].map((secret) => [secret.name, secret])));
    const inOrder = [...secrets.values()].sort(
      (a, b) => Number(a.created > b.created) - Number(a.created < b.created) || (a.name < b.name ? -1 : 1),
    );
    onEntries(inOrder.flatMap(({ entries }) => entries));
  };
  const informers = new Map(
    LABELS.map((labelSelector) => {
      const informer = new Informer<RemoteSecret>({
        connection,
        type: SECRETS,
        namespace,
        labelSelector,
        convert: (object) => secretOf(object, namespace),
        onChange: update,
        onFailure: (_error, isForbidden) => {
          if (!isForbidden) return;
          forbidden.add(labelSelector);
          update();
        },
        failures: failuresOf(labelSelector),
      });
      return [labelSelector, informer];
    }),
  );
  return {
    start: () => {
      for (const informer of informers.values()) informer.start();
    },
    settled: settled.promise,
    async close() {
      await Promise.all([...informers.values()].map((informer) => informer.close()));
    },
  };
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
