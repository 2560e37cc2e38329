/**
 * Reads what a workload's files need from a cluster: its WorkloadGroup, a token of its service account, the root
 * certificates.
 */
import { systemClock } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import {
  ApiError,
  CONFIG_MAPS,
  Connection,
  KubernetesClient,
  pathOf,
  readKubeconfig,
  v1Type,
} from '../kubernetes/index.ts';
import { apiVersionsOf, parseResource, type WorkloadGroupSpec } from '../resources/index.ts';
import { ROOT_CERT_KEY, ROOT_CONFIG_MAP } from '../security/index.ts';
import { accountOf } from './files.ts';

export interface ClusterInputs {
  readonly spec: WorkloadGroupSpec;
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly tokenEnds: number;
  readonly rootCertificate: string;
}

export interface ClusterRequest {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly group: string;
  readonly audience: string;
  readonly lifetimeSeconds: number;
}

const SERVICE_ACCOUNTS = v1Type('', 'ServiceAccount', 'serviceaccounts');

/** Rejects with CtlError naming what is missing. */
export async function fromCluster(request: ClusterRequest): Promise<ClusterInputs> {
  const access = await readKubeconfig(request.kubeconfig);
  const connection = new Connection({ access, clock: systemClock, random: Math.random, userAgent: 'ctl-discovery' });
  try {
    const client = new KubernetesClient(connection);
    const spec = await groupOf(client, request);
    const [{ token, tokenEnds }, rootCertificate] = await Promise.all([
      tokenOf(client, accountOf(spec), request),
      rootsOf(client, request),
    ]);
    return { spec, token, tokenEnds, rootCertificate };
  } finally {
    connection.close();
  }
}

async function groupOf(
  client: KubernetesClient,
  { namespace, group: name }: ClusterRequest,
): Promise<WorkloadGroupSpec> {
  // In the mesh's own API group, else in that of Istio.
  for (const domain of ['mesh.io', 'istio.io']) {
    const apiVersion = apiVersionsOf('WorkloadGroup').find((each) => each.includes(`.${domain}/v1alpha3`)) ?? '';
    const [group = '', version = ''] = apiVersion.split('/');
    const type = { group, version, plural: 'workloadgroups', kind: 'WorkloadGroup', namespaced: true };
    const object = await found(client.get(type, name, { namespace }));
    if (object === undefined) continue;
    const parsed = parseResource({ ...object, apiVersion }, { source: 'the cluster' }, () => undefined);
    if ('resource' in parsed) return parsed.resource.content as WorkloadGroupSpec;
    const { field = '', message = 'invalid' } = 'problem' in parsed ? parsed.problem : {};
    throw new CtlError('invalid_argument', `WorkloadGroup ${namespace}/${name}: ${message}`, { field });
  }
  throw new CtlError('not_found', `the cluster has no WorkloadGroup ${namespace}/${name}`);
}

/** Kubernetes API, TokenRequest of authentication.k8s.io/v1. */
async function tokenOf(
  client: KubernetesClient,
  account: string,
  { namespace, audience, lifetimeSeconds }: ClusterRequest,
): Promise<{ readonly token: string; readonly tokenEnds: number }> {
  const path = `${pathOf(SERVICE_ACCOUNTS, namespace, account)}/token`;
  const spec = { audiences: [audience], expirationSeconds: lifetimeSeconds };
  const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec });
  const request = client.json({ method: 'POST', path, contentType: 'application/json', body });
  const answer = (await found(request)) as { status?: { token?: string; expirationTimestamp?: string } } | undefined;
  if (answer === undefined)
    throw new CtlError('not_found', `the cluster has no ServiceAccount ${namespace}/${account}`);
  const { token = '', expirationTimestamp = '' } = answer.status ?? {};
  const tokenEnds = Date.parse(expirationTimestamp);
  if (typeof token !== 'string' || token === '' || Number.isNaN(tokenEnds))
    throw new CtlError('unavailable', 'the API server issued no token, or a token without an expiry time');
  return { token, tokenEnds };
}

async function rootsOf(client: KubernetesClient, { namespace }: ClusterRequest): Promise<string> {
  const object = await found(client.get(CONFIG_MAPS, ROOT_CONFIG_MAP, { namespace }));
  const data = object?.data as Readonly<Record<string, string>> | undefined;
  const roots = data?.[ROOT_CERT_KEY] ?? '';
  if (roots !== '') return roots;
  const what = `the root certificates of the mesh (ConfigMap ${namespace}/${ROOT_CONFIG_MAP})`;
  throw new CtlError('not_found', `the cluster does not have ${what}: is ctl-discovery running?`);
}

/** Undefined for what does not exist. */
async function found<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}
