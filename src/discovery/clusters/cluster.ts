/**
 * The cluster that the program runs for: the one connection to its API server, which the source, the identity and
 * everything that writes to the cluster share.
 */
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import {
  type ClusterAccess,
  Connection,
  inClusterAccess,
  KubernetesClient,
  readKubeconfig,
} from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import type { DiscoverySettings, Environment } from '../../settings/index.ts';
import { createLeadership, type Leadership } from './leadership.ts';

export interface Cluster {
  readonly client: KubernetesClient;
  /** The token by which this program authenticates itself; undefined when it uses a certificate. */
  ownToken(): Promise<string | undefined>;
  /** The CAs of the API server, PEM; undefined: those that Node trusts. Rejects with CtlError naming an unreadable file. */
  certificateAuthority(): Promise<string | undefined>;
  /** Namespace of the context or of the Pod. */
  readonly namespace: string | undefined;
  /** Tasks that one replica does for all. */
  readonly leadership: Leadership;
  /** Aborts when the program begins to close it. */
  readonly closing: AbortSignal;
  close(): Promise<void>;
}

/**
 * Opens the connection; the API server is reached with the first request. Undefined when no cluster is read.
 * @throws CtlError when a cluster is required and not configured, or its configuration is invalid
 */
export async function openCluster(settings: DiscoverySettings, env: Environment): Promise<Cluster | undefined> {
  const access = await clusterAccess(settings, env);
  if (access === undefined) return undefined;
  const connection = createConnection(access);
  const client = new KubernetesClient(connection);
  const leadership = createLeadership(client, settings, env);
  const closing = new AbortController();
  const close = async (): Promise<void> => {
    closing.abort();
    await leadership.close();
    connection.close();
  };
  return {
    client,
    ownToken: () => access.token(),
    certificateAuthority: async () => (await access.tls()).ca,
    namespace: access.namespace,
    leadership,
    closing: closing.signal,
    close,
  };
}

/** A connection to the API server of this cluster, or of another. */
export function createConnection(access: ClusterAccess): Connection {
  return new Connection({ access, clock: systemClock, random: Math.random, userAgent: 'ctl-discovery' });
}

/**
 * Whether the registry Orchestrator reads a cluster: without `--configDir`, or in addition to it with `--kubeconfig`.
 */
function readsCluster({ registries, configDir, kubeconfig }: DiscoverySettings): boolean {
  return registries.includes('Orchestrator') && (configDir === '' || kubeconfig !== '');
}

/**
 * The access to the cluster: from `--kubeconfig`, else from the variable KUBECONFIG, else from the service account of
 * this Pod. Undefined when no cluster is read.
 * @throws CtlError when a cluster is required and not configured, or its configuration is invalid
 */
export async function clusterAccess(settings: DiscoverySettings, env: Environment): Promise<ClusterAccess | undefined> {
  if (!readsCluster(settings)) return undefined;
  const onProblem = (error: CtlError): void =>
    getScope('default').warn(`${error.oneLine()}; the credentials that were read before stay in use`);
  const file = settings.kubeconfig || env.KUBECONFIG || '';
  const access = file === '' ? await inClusterAccess(env) : await readKubeconfig(file, { onProblem });
  if (access !== undefined) return access;
  const message =
    'the registry Orchestrator has nothing to read: name a cluster with --kubeconfig or a directory with ' +
    '--configDir, run in a Pod, or name another registry';
  throw new CtlError('failed_precondition', message, { field: '--registries' });
}
