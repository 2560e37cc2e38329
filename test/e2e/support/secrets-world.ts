/**
 * A mesh whose gateways get their certificates from Secrets: ctl-discovery with its authority, gateways (real Envoys of
 * `ctl-agent proxy router` with certificates of the mesh), and streams that request secrets of others. All on loopback.
 * Documents and tokens are in directories, or, for the files of `test/kubernetes/e2e`, in an API server.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CertificateSet } from '../../../src/agent/identity/testing/certificates.ts';
import { issueToken } from '../../../src/security/local-issuer.ts';
import {
  type Agent,
  type AgentOptions,
  type Discovery,
  type DiscoveryOptions,
  discoveryPorts,
  type Owner,
  startAgent,
  startDiscovery,
  tempDir,
} from '../../harness/index.ts';
import type { ApiObject, Kubernetes } from '../../harness/kubernetes/index.ts';
import { AskingStream, type StreamOptions } from './asking-stream.ts';
import { startClusterSource } from './cluster-config.ts';
import { type ConfigDir, configDir, type Document } from './config.ts';
import { inCluster } from './mesh.ts';

export interface GatewayOptions {
  readonly name: string;
  readonly namespace: string;
  readonly address: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly serviceAccount: string;
  readonly agent?: Pick<AgentOptions, 'env' | 'serviceAccount'>;
}

export interface SecretsWorld {
  readonly config: ConfigDir;
  /** The current process. */
  discovery(): Discovery;
  /** Starts ctl-discovery again, at the same addresses; the earlier process must have ended. */
  restart(env?: Readonly<Record<string, string>>): Promise<Discovery>;
  token(namespace: string, serviceAccount: string): Promise<string>;
  startGateway(options: GatewayOptions): Promise<Agent>;
  /** A stream of any caller; closed with the owner. */
  stream(options: StreamOptions): AskingStream;
}

/** Where documents and tokens are kept: in directories, or in an API server. */
interface Backing {
  readonly config: ConfigDir;
  readonly options: Pick<DiscoveryOptions, 'configDir' | 'kubeconfig' | 'env'>;
  token(namespace: string, serviceAccount: string): Promise<string>;
  /** A token as a kubelet mounts it, where there are such. */
  podToken(namespace: string, pod: string, serviceAccount: string): Promise<string>;
  /** The root certificate of the mesh; absent where it is a file of the authority's directory. */
  readonly root?: () => Promise<string>;
}

async function directories(owner: Owner): Promise<Backing> {
  const issuerDir = join(await tempDir(owner), 'issuer');
  const config = configDir(await tempDir(owner));
  const token: Backing['token'] = (namespace, serviceAccount) =>
    issueToken({
      directory: issuerDir,
      identity: { namespace, serviceAccount },
      audience: 'mesh-ca',
      lifetimeSeconds: 3600,
      now: Date.now(),
    });
  // Its key pair must be there before ctl-discovery looks for it.
  await token('default', 'first');
  return {
    config,
    options: { configDir: config.path, env: { LOCAL_TOKEN_ISSUER_DIR: issuerDir } },
    token,
    podToken: (namespace, _, serviceAccount) => token(namespace, serviceAccount),
  };
}

/** ctl-discovery may read only Secrets of these names, as an operator has to allow it. */
async function allowSecrets({ api }: Kubernetes, names: readonly string[]): Promise<void> {
  const resourceNames = names.flatMap((name) => [name, `${name}-cacert`]);
  const [apiVersion, metadata] = ['rbac.authorization.k8s.io/v1', { name: 'ctl-discovery-credentials' }];
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: metadata.name };
  const subjects = [{ kind: 'ServiceAccount', name: 'ctl-discovery', namespace: 'mesh-system' }];
  await api.apply([
    {
      apiVersion,
      kind: 'ClusterRole',
      metadata,
      rules: [{ apiGroups: [''], resources: ['secrets'], resourceNames, verbs: ['list', 'watch'] }],
    },
    { apiVersion, kind: 'ClusterRoleBinding', metadata, roleRef, subjects },
  ]);
}

async function apiServer(owner: Owner, credentials: readonly string[]): Promise<Backing> {
  const { meshRoot } = await import('../../harness/kubernetes/index.ts');
  const { cluster, config, kubeconfig } = await startClusterSource(owner);
  await allowSecrets(cluster, credentials);
  const ensureAccount = async (namespace: string, name: string) => {
    await cluster.api.apply([
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } },
    ]);
  };
  const token = async (namespace: string, name: string, boundTo?: ApiObject) => {
    await ensureAccount(namespace, name);
    return cluster.serviceAccountToken({ namespace, name, audiences: ['mesh-ca'], ...(boundTo && { boundTo }) });
  };
  return {
    config,
    options: { kubeconfig },
    root: () => meshRoot(cluster),
    token: (namespace, serviceAccount) => token(namespace, serviceAccount),
    async podToken(namespace, pod, serviceAccount) {
      const found = await cluster.api.get(`/api/v1/namespaces/${namespace}/pods/${pod}`);
      return token(namespace, serviceAccount, found);
    },
  };
}

/** @param credentials names of the Secrets that gateways use */
export async function startSecretsWorld(
  owner: Owner,
  files: Readonly<Record<string, readonly Document[]>>,
  credentials: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<SecretsWorld> {
  const [caDir, folder] = [await tempDir(owner), await tempDir(owner)];
  const backing = await (inCluster() ? apiServer(owner, credentials) : directories(owner));
  const { config, options, token, podToken, root } = backing;
  for (const [name, documents] of Object.entries(files)) await config.apply(name, ...documents);
  const ports = await discoveryPorts();
  const start = (more: Readonly<Record<string, string>> = {}) =>
    startDiscovery(owner, {
      ...options,
      ports,
      env: { ...options.env, SELF_SIGNED_CA_DIR: caDir, CTL_DEBUG_ADSZ_CONFIG: 'true', ...env, ...more },
    });
  let discovery = await start();
  const rootFile = join(root === undefined ? caDir : folder, 'root-cert.pem');
  if (root !== undefined) await writeFile(rootFile, await root());
  return {
    config,
    discovery: () => discovery,
    async restart(env) {
      discovery = await start(env);
      return discovery;
    },
    token,
    async startGateway({ name, namespace, address, labels, serviceAccount, agent }) {
      const tokenFile = join(folder, `token-${namespace}-${name}`);
      await writeFile(tokenFile, await podToken(namespace, name, serviceAccount));
      return startAgent(owner, {
        name,
        role: 'router',
        podNamespace: namespace,
        labels,
        address,
        discoveryAddress: `127.0.0.1:${ports.secure}`,
        ...agent,
        env: { CA_TOKEN_FILE: tokenFile, CA_ROOT_CA: rootFile, SERVICE_ACCOUNT: serviceAccount, ...agent?.env },
      });
    },
    stream: (options) => {
      const stream = new AskingStream(ports, () => readFile(rootFile), options);
      owner.after(() => stream.close());
      return stream;
    },
  };
}

/** A Secret in the orchestrator's form. */
export function secret(
  name: string,
  namespace: string,
  type: string,
  entries: Readonly<Record<string, string>>,
): Document {
  const data = Object.fromEntries(
    Object.entries(entries).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
  );
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, type, data };
}

export function tlsSecret(name: string, namespace: string, { leaf, key }: CertificateSet, more = {}): Document {
  return secret(name, namespace, 'kubernetes.io/tls', { 'tls.crt': leaf, 'tls.key': key, ...more });
}

/** Lines of a private key that occur nowhere else. */
export function secretLines({ key }: Pick<CertificateSet, 'key'>): string[] {
  const lines = key.split('\n').filter((line) => line !== '' && !line.startsWith('-----'));
  // The first bytes of the encoding are common to all keys of a kind. The last text is the form in Secrets and dumps.
  return [...lines.slice(1), Buffer.from(key).toString('base64').slice(150, 200)];
}
