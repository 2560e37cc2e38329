/**
 * A mesh whose gateways get their certificates from Secrets: ctl-discovery with its authority, gateways (real Envoys of
 * `ctl-agent proxy router` with certificates of the mesh), and streams that request secrets of others. All on loopback.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CertificateSet } from '../../../src/agent/identity/testing/certificates.ts';
import { issueToken } from '../../../src/security/index.ts';
import {
  type Agent,
  type Discovery,
  discoveryPorts,
  type Owner,
  startAgent,
  startDiscovery,
  tempDir,
} from '../../harness/index.ts';
import { AskingStream, type StreamOptions } from './asking-stream.ts';
import { type ConfigDir, configDir, type Document } from './config.ts';

export interface GatewayOptions {
  readonly name: string;
  readonly namespace: string;
  readonly address: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly serviceAccount: string;
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

export async function startSecretsWorld(
  owner: Owner,
  files: Readonly<Record<string, readonly Document[]>>,
): Promise<SecretsWorld> {
  const [caDir, folder] = [await tempDir(owner), await tempDir(owner)];
  const issuerDir = join(folder, 'issuer');
  const config = configDir(await tempDir(owner));
  for (const [name, documents] of Object.entries(files)) await config.apply(name, ...documents);
  const token: SecretsWorld['token'] = (namespace, serviceAccount) =>
    issueToken({
      directory: issuerDir,
      identity: { namespace, serviceAccount },
      audience: 'mesh-ca',
      lifetimeSeconds: 3600,
      now: Date.now(),
    });
  // Its key pair must be there before ctl-discovery looks for it.
  await token('default', 'first');
  const ports = await discoveryPorts();
  const start = (more: Readonly<Record<string, string>> = {}) =>
    startDiscovery(owner, {
      configDir: config.path,
      ports,
      env: { SELF_SIGNED_CA_DIR: caDir, LOCAL_TOKEN_ISSUER_DIR: issuerDir, CTL_DEBUG_ADSZ_CONFIG: 'true', ...more },
    });
  let discovery = await start();
  const rootFile = join(caDir, 'root-cert.pem');
  return {
    config,
    discovery: () => discovery,
    async restart(env) {
      discovery = await start(env);
      return discovery;
    },
    token,
    async startGateway({ name, namespace, address, labels, serviceAccount }) {
      const tokenFile = join(folder, `token-${namespace}-${name}`);
      await writeFile(tokenFile, await token(namespace, serviceAccount));
      return startAgent(owner, {
        name,
        role: 'router',
        podNamespace: namespace,
        labels,
        address,
        discoveryAddress: `127.0.0.1:${ports.secure}`,
        env: { CA_TOKEN_FILE: tokenFile, CA_ROOT_CA: rootFile, SERVICE_ACCOUNT: serviceAccount },
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
