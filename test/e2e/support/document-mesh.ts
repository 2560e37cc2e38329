/**
 * A mesh whose documents come from other control planes: a reader of a source of Istio 1.7 over MCP, of another
 * ctl-discovery and of a Delta server of go-control-plane over xDS, with a gateway that has what it reads.
 */
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import {
  type Discovery,
  discoveryPorts,
  eventually,
  type Owner,
  startDiscovery,
  startEcho,
  tempDir,
} from '../../harness/index.ts';
import { type ConfigDir, configDir, type Document, resource } from './config.ts';
import { type DocumentServer, deltaServer, istioSource } from './document-servers.ts';
import { agentFiles, meshRoot } from './foreign-certificate.ts';
import { planMesh, startMesh, type TestMesh } from './mesh.ts';
import { call } from './traffic.ts';

const PORT = 7080;
const BACKEND_PORT = 7480;

const address = planMesh();

export interface DocumentMesh {
  /** Reads from the source of Istio and from the hub, and configures the Envoy. */
  readonly reader: TestMesh;
  /** Serves the documents of its directory to the reader and to Istio. */
  readonly hub: { discovery: Discovery; readonly config: ConfigDir; restart(): Promise<void> };
  readonly source: DocumentServer;
  /** A server of Delta. */
  readonly delta: DocumentServer;
  /** Directory with a certificate, its key and the root, for an identity. */
  certificatesOf(namespace: string): Promise<string>;
}

export const gateway = { address: address(10), port: PORT, host: 'shop.example.com' };

export const GATEWAY = resource('Gateway', 'front', {
  selector: { app: 'front' },
  servers: [{ port: { number: PORT, name: 'http', protocol: 'HTTP' }, bind: gateway.address, hosts: ['*'] }],
});

export const external = (name: string, last: number): Document =>
  resource('ServiceEntry', name, {
    hosts: [`${name}.example.com`],
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    location: 'MESH_INTERNAL',
    resolution: 'STATIC',
    endpoints: [{ address: address(last), ports: { http: BACKEND_PORT } }],
  });

export const route = (name: string, to: string, host = 'shop.example.com'): Document =>
  resource('VirtualService', name, {
    hosts: [host],
    gateways: ['front'],
    http: [{ route: [{ destination: { host: `${to}.example.com` } }] }],
  });

/** A document of the policy component. */
export const AUDIT: Document = {
  apiVersion: 'config.istio.io/v1alpha2',
  kind: 'handler',
  metadata: { name: 'audit', namespace: 'default' },
  spec: { compiledAdapter: 'listchecker', params: { overrides: ['a', 'b'], blacklist: true } },
};

export const deny = (path: string): Document =>
  resource('AuthorizationPolicy', 'closed', {
    selector: { matchLabels: { app: 'front' } },
    action: 'DENY',
    rules: [{ to: [{ operation: { paths: [path] } }] }],
  });

/** Which backend answers a request through the gateway, else the status. */
export const backend = async (path = '/', host = gateway.host): Promise<string> => {
  const { status, by } = await call({ ...gateway, host, path });
  return by ?? String(status);
};

export const come = (check: () => Promise<void> | void) => eventually(check, { timeoutMs: 30_000 });

/** The mesh, with all of its control planes and backends started. */
export async function startDocumentMesh(owner: Owner): Promise<DocumentMesh> {
  for (const [index, name] of ['blue', 'green'].entries())
    await startEcho(owner, { name, address: address(21 + index), port: BACKEND_PORT });
  const config = configDir(await tempDir(owner));
  await config.apply('rules', external('green', 22), route('green', 'green', 'green.shop.com'), deny('/closed'));
  const folder = await tempDir(owner);
  const hubPorts = await discoveryPorts();
  const env = {
    SELF_SIGNED_CA_DIR: join(folder, 'ca'),
    CTL_STATE_DIR: join(folder, 'state'),
    CTL_CONFIG_READERS: 'mesh-system/istiod',
  };
  const startHub = () => startDiscovery(owner, { configDir: config.path, ports: hubPorts, env });
  const hub = {
    discovery: await startHub(),
    config,
    async restart() {
      hub.discovery = await startHub();
    },
  };
  const root = await meshRoot(owner, { caDir: join(folder, 'ca') });
  const certificatesOf = (namespace: string): Promise<string> =>
    agentFiles(owner, root, `URI:spiffe://cluster.local/ns/${namespace}/sa/istiod`);
  const source = await istioSource(owner, GATEWAY, external('blue', 21), route('shop', 'blue'));
  const delta = await deltaServer(owner, route('first', 'blue', 'first.shop.com'));
  const meshConfig = join(folder, 'mesh.yaml');
  await writeFile(
    meshConfig,
    stringify({
      configSources: [
        { address: source.address },
        { address: `xds://127.0.0.1:${hubPorts.secure}`, tlsSettings: { mode: 'ISTIO_MUTUAL' } },
        { address: delta.address },
      ],
    }),
  );
  // The reader's authority has the root of the hub, so that each trusts the other.
  const plugged = join(folder, 'cacerts');
  await mkdir(plugged);
  for (const name of ['ca-cert.pem', 'root-cert.pem', 'cert-chain.pem'])
    await copyFile(root.certificate, join(plugged, name));
  await copyFile(root.key, join(plugged, 'ca-key.pem'));
  const reader = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    env: { ROOT_CA_DIR: plugged, CTL_ENABLE_INCREMENTAL_MCP: 'true' },
  });
  await reader.startProxy({ name: 'front', type: 'router', mode: 'delta', address: gateway.address });
  return { reader, hub, source, delta, certificatesOf };
}
