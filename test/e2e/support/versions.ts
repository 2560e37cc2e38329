/**
 * The mesh of routing tests: service `web` with the pods web-v1 and web-v2, and two clients, one over SotW and one over
 * Delta. Both must follow the edits of a test.
 */
import { type Echo, type Owner, startEcho } from '../../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './config.ts';
import {
  type MeshOptions,
  type MeshProxy,
  MODES,
  type ProxyOptions,
  planMesh,
  type SidecarFields,
  sidecar,
  startMesh,
  type TestMesh,
} from './mesh.ts';

/**
 * The HTTP port of clients, at their own address: a port that no program uses by default, below those of outgoing
 * connections.
 */
export const HTTP_PORT = 7480;

export interface VersionsMesh extends TestMesh {
  /** `client-sotw` and `client-delta`. */
  readonly clients: readonly MeshProxy[];
  readonly v1: Echo;
  readonly v2: Echo;
}

/** Pods and endpoints of `web`, as two versions. */
export function webWorkloads(v1: string, v2: string): Document[] {
  return [
    pod('web-v1', { ip: v1, labels: { app: 'web', version: 'v1' } }),
    pod('web-v2', { ip: v2, labels: { app: 'web', version: 'v2' } }),
    endpoints('web', { 'web-v1': v1, 'web-v2': v2 }, [{ name: 'http', port: HTTP_PORT }]),
  ];
}

export const WEB = service('web', { clusterIP: '10.96.0.1', ports: [{ name: 'http', port: HTTP_PORT }] });

export const WEB_SUBSETS = resource('DestinationRule', 'web', {
  host: 'web',
  subsets: [
    { name: 'v1', labels: { version: 'v1' } },
    { name: 'v2', labels: { version: 'v2' } },
  ],
});

export const to = (subset: string, host = 'web') => ({ destination: { host, subset } });

export interface VersionsOptions extends MeshOptions {
  /** Further ports of clients. */
  readonly egress?: SidecarFields['egress'];
  /** Where they resolve names. */
  readonly dnsServer?: (address: (last: number) => string) => NonNullable<ProxyOptions['dnsServer']>;
}

/** Starts discovery, both backends and both clients, and waits until all are ready. */
export async function startVersionsMesh(owner: Owner, options: VersionsOptions = {}): Promise<VersionsMesh> {
  const address = planMesh();
  const { files = {}, egress = [], dnsServer, ...rest } = options;
  const v1 = await startEcho(owner, { name: 'web-v1', address: address(21), port: HTTP_PORT });
  const v2 = await startEcho(owner, { name: 'web-v2', address: address(22), port: HTTP_PORT });
  const ports = [{ number: HTTP_PORT, protocol: 'HTTP' }, ...egress];
  const clients = MODES.map((mode, index) => ({ name: `client-${mode}`, mode, address: address(10 + index) }));
  const mesh = await startMesh(owner, address, {
    ...rest,
    files: {
      clients: clients.map((client) => sidecar(client.name, { address: client.address, egress: ports })),
      web: [WEB, WEB_SUBSETS],
      workloads: webWorkloads(address(21), address(22)),
      ...files,
    },
  });
  const resolving = dnsServer === undefined ? {} : { dnsServer: dnsServer(address) };
  const proxies = await Promise.all(clients.map((client) => mesh.startProxy({ ...client, ...resolving })));
  return { ...mesh, clients: proxies, v1, v2 };
}
