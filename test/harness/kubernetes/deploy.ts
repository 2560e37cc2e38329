/** What an operator applies to a cluster before ctl-discovery runs: the manifests of `deploy`. */
import { randomBytes } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../eventually.ts';
import type { Owner } from '../owner.ts';
import { type KubernetesApi, kubeconfig } from './api.ts';
import { conformancePath } from './conformance-programs.ts';
import type { Kubernetes } from './control-plane.ts';

const DEPLOY = join(import.meta.dirname, '../../../deploy');
const DEFINITIONS = join(DEPLOY, 'crds');

export interface DefinitionOptions {
  /** Applies those of the `istio.io` groups as well. Default false. */
  readonly istio?: boolean;
}

/** Creates the mesh's kinds. */
export async function applyDefinitions(api: KubernetesApi, { istio = false }: DefinitionOptions = {}): Promise<void> {
  const files = globSync(istio ? '**/*.yaml' : '*.yaml', { cwd: DEFINITIONS }).sort();
  await Promise.all(files.map((file) => api.apply(readFileSync(join(DEFINITIONS, file), 'utf8'))));
}

/**
 * Applies `deploy/rbac-remote.yaml` to another cluster of a mesh and returns the text of a kubeconfig of its account.
 * Each call makes a new token, in a Secret as that file does; the cluster needs its controller manager.
 */
export async function remoteKubeconfig(cluster: Kubernetes): Promise<string> {
  await cluster.api.apply(readFileSync(join(DEPLOY, 'rbac-remote.yaml'), 'utf8'));
  const name = `ctl-discovery-remote-${randomBytes(4).toString('hex')}`;
  const annotations = { 'kubernetes.io/service-account.name': 'ctl-discovery-remote' };
  const metadata = { name, namespace: 'mesh-system', annotations };
  await cluster.api.apply([
    { apiVersion: 'v1', kind: 'Secret', metadata, type: 'kubernetes.io/service-account-token' },
  ]);
  return eventually(async () => {
    const path = `/api/v1/namespaces/mesh-system/secrets/${name}`;
    const { data } = await cluster.api.get<{ data?: { token?: string } }>(path);
    if (data?.token === undefined) throw new Error(`Secret ${name} has no token yet`);
    return kubeconfig(cluster.as({ token: Buffer.from(data.token, 'base64').toString() }));
  });
}

/**
 * Applies `deploy/rbac.yaml` and returns the path of a kubeconfig of its account: with it ctl-discovery may do what it
 * may do in a cluster, and no more. The token is valid for an hour.
 */
export async function discoveryKubeconfig(owner: Owner, cluster: Kubernetes): Promise<string> {
  await cluster.api.apply(readFileSync(join(DEPLOY, 'rbac.yaml'), 'utf8'));
  const token = await cluster.serviceAccountToken({ namespace: 'mesh-system', name: 'ctl-discovery' });
  return await cluster.kubeconfig(owner, { token });
}

/** The root certificate, PEM, by which the replicas of ctl-discovery in this cluster sign. */
export async function meshRoot({ api }: Kubernetes): Promise<string> {
  const { data } = await api.get('/api/v1/namespaces/mesh-system/secrets/mesh-ca-secret');
  return Buffer.from((data as Record<string, string>)['ca-cert.pem'] ?? '', 'base64').toString();
}

/** Creates the kinds of the Gateway API, of its experimental channel; `conformanceUnavailable` must be undefined. */
export async function applyGatewayDefinitions(api: KubernetesApi): Promise<void> {
  const folder = conformancePath('definitions');
  // Those of `x-k8s.io` are experiments of which nothing is read.
  const files = globSync('gateway.networking.k8s.io_*.yaml', { cwd: folder }).sort();
  await Promise.all(files.map((file) => api.apply(readFileSync(join(folder, file), 'utf8'))));
}
