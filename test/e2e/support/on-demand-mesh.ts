/**
 * A mesh with services for each protocol, a sidecar that asks for what it uses, and where a test compares, one that has
 * everything. The DNS server of the former never answers.
 */
import { createSocket } from 'node:dgram';
import { type Balancer, type Owner, startBalancer, startDns, startTcpEcho } from '../../harness/index.ts';
import { type Document, endpoints, resource, service } from './config.ts';
import { type MeshOptions, type MeshProxy, planMesh, sidecar, startMesh, type TestMesh } from './mesh.ts';
import { type HttpBackend, startGrpcBackend, startHttpBackend, startTlsBackend } from './protocol-backend.ts';
import { HTTP_PORT } from './versions.ts';

export const TCP_PORT = 7490;
export const WEIGHTED_PORT = 7491;
export const LATE_TCP_PORT = 7493;
/** Leads to the service `absent`, which a test creates. */
export const ABSENT_PORT = 7494;
export const TLS_PORT = 7443;
const DNS_PORT = 7453;
export const SUFFIX = 'default.svc.cluster.local';
/** First requests at once. */
const MANY = 50;

const address = planMesh();
export const [V1, V2, GRPC, SILENT, DNS] = [address(21), address(22), address(23), address(24), address(25)];

export interface AskingMesh {
  readonly mesh: TestMesh;
  /** Between proxies and the control plane. */
  readonly between: Balancer;
  /** Has what it asked for. */
  readonly client: MeshProxy;
  /** Starts another proxy of the workload of the client, at its address. */
  startClient(): Promise<MeshProxy>;
  readonly v1: HttpBackend;
  readonly v2: HttpBackend;
}

export interface OnDemandMesh extends AskingMesh {
  /** Has everything. */
  readonly whole: MeshProxy;
}

let addresses = 0;

/** A service whose cluster has this name, and one endpoint. */
export function serviceAt(name: string, at: string, port = HTTP_PORT, portName = 'http'): Document[] {
  const ports = [{ name: portName, port }];
  addresses++;
  const clusterIP = `10.99.${addresses >> 8}.${addresses & 255}`;
  return [service(name, { clusterIP, ports }), endpoints(name, [at], ports)];
}

export const destination = (host: string, port = HTTP_PORT) => ({ host, port: { number: port } });

function tlsHost(name: string, at: string): Document {
  return resource('ServiceEntry', name, {
    hosts: [`${name}.example`],
    location: 'MESH_EXTERNAL',
    resolution: 'STATIC',
    ports: [{ number: TLS_PORT, name: 'tls', protocol: 'TLS' }],
    endpoints: [{ address: at }],
  });
}

export const numbered = (name: string) => Array.from({ length: MANY }, (_, at) => `${name}-${at}`);

const HTTP_SERVICES = [
  ...['http2', 'websocket', 'up-1', 'up-2', 'down-1', 'down-2', 'same', 'known', 'slow', 'split', 'mirrored'],
  ...['away', 'killed', 'part-1', 'late-1', 'late-2', 'late-3', 'late-4'],
  ...['marker', ...numbered('many')],
];

/** Services of the traffic log, which may be edited. */
export const REPLAYED = Array.from({ length: 12 }, (_, index) => `replayed-${index}`);

function services(): Document[] {
  return [
    ...HTTP_SERVICES.flatMap((name) => serviceAt(name, V1)),
    ...['copies', 'part-2'].flatMap((name) => serviceAt(name, V2)),
    ...['unary', 'stream'].flatMap((name) => serviceAt(name, GRPC, HTTP_PORT, 'grpc')),
    ...serviceAt('tcp-a', V1, TCP_PORT, 'tcp'),
    ...serviceAt('tcp-b', V1, WEIGHTED_PORT, 'tcp'),
    ...serviceAt('tcp-c', V2, WEIGHTED_PORT, 'tcp'),
    ...serviceAt('late-tcp', V1, LATE_TCP_PORT, 'tcp'),
    ...serviceAt('to-absent', V2, ABSENT_PORT, 'tcp'),
    resource('VirtualService', 'to-absent', {
      hosts: ['to-absent'],
      tcp: [{ route: [{ destination: destination(`absent.${SUFFIX}`, ABSENT_PORT) }] }],
    }),
    ...['tls-a', 'tls-b'].map((name, at) => tlsHost(name, at === 0 ? V1 : V2)),
    resource('VirtualService', 'mirrored', {
      hosts: ['mirrored'],
      http: [{ route: [{ destination: destination('mirrored') }], mirror: destination('copies') }],
    }),
    resource('VirtualService', 'split', {
      hosts: ['split'],
      http: [{ route: ['part-1', 'part-2'].map((host) => ({ destination: destination(host), weight: 50 })) }],
    }),
    resource('VirtualService', 'tcp-b', {
      hosts: ['tcp-b'],
      tcp: [
        { route: ['tcp-b', 'tcp-c'].map((host) => ({ destination: destination(host, WEIGHTED_PORT), weight: 50 })) },
      ],
    }),
  ];
}

const egress = [
  { number: HTTP_PORT, protocol: 'HTTP' },
  { number: TCP_PORT, protocol: 'TCP', hosts: [`./tcp-a.${SUFFIX}`] },
  { number: WEIGHTED_PORT, protocol: 'TCP', hosts: [`./tcp-b.${SUFFIX}`] },
  { number: LATE_TCP_PORT, protocol: 'TCP', hosts: [`./late-tcp.${SUFFIX}`] },
  { number: ABSENT_PORT, protocol: 'TCP', hosts: [`./to-absent.${SUFFIX}`] },
  // Imported, so that a route can lead there.
  { number: 7492, protocol: 'TCP', hosts: ['tcp-c', 'absent', 'led-tcp'].map((name) => `./${name}.${SUFFIX}`) },
  { number: TLS_PORT, protocol: 'TLS', hosts: ['./tls-a.example', './tls-b.example'] },
];

/** A DNS server that never answers. */
async function startSilentDns(owner: Owner): Promise<void> {
  const socket = createSocket('udp4');
  await new Promise<void>((resolve) => void socket.bind(DNS_PORT, SILENT, resolve));
  owner.after(() => void socket.close());
}

const WHOLE = { name: 'client-whole', address: address(40), metadata: { SIDECAR_CONFIGURATION: 'all' } };
const CLIENT = { name: 'client-asking', address: address(41), metadata: { SIDECAR_CONFIGURATION: 'learned' } };

/**
 * The mesh with the sidecar that asks.
 * @param files further documents
 */
export async function startAskingMesh(owner: Owner, files: MeshOptions['files'] = {}): Promise<AskingMesh> {
  const [v1, v2] = await Promise.all([
    startHttpBackend(owner, { name: 'v1', address: V1, port: HTTP_PORT }),
    startHttpBackend(owner, { name: 'v2', address: V2, port: HTTP_PORT }),
    startGrpcBackend(owner, { address: GRPC, port: HTTP_PORT }),
    startTcpEcho(owner, { name: 'v1', address: V1, port: TCP_PORT }),
    startTcpEcho(owner, { name: 'v1', address: V1, port: WEIGHTED_PORT }),
    startTcpEcho(owner, { name: 'v1', address: V1, port: LATE_TCP_PORT }),
    startTcpEcho(owner, { name: 'v1', address: V1, port: ABSENT_PORT }),
    startTcpEcho(owner, { name: 'v2', address: V2, port: WEIGHTED_PORT }),
    startTlsBackend(owner, { name: 'v1', address: V1, port: TLS_PORT }),
    startTlsBackend(owner, { name: 'v2', address: V2, port: TLS_PORT }),
    startSilentDns(owner),
  ]);
  const between = await startBalancer(owner);
  const mesh = await startMesh(owner, address, {
    balancer: between,
    env: { CTL_DEBOUNCE_AFTER: '10ms' },
    files: {
      clients: [WHOLE, CLIENT].map((client) => sidecar(client.name, { address: client.address, egress })),
      services: services(),
      ...files,
    },
  });
  const dnsServer = { address: SILENT, port: DNS_PORT };
  const startClient = () => mesh.startProxy({ ...CLIENT, mode: 'delta', dnsServer });
  return { mesh, between, client: await startClient(), startClient, v1, v2 };
}

/** The mesh with both sidecars. */
export async function startOnDemandMesh(owner: Owner): Promise<OnDemandMesh> {
  const asking = await startAskingMesh(owner);
  await startDns(owner, { address: DNS, port: DNS_PORT, names: {} });
  const dnsServer = { address: DNS, port: DNS_PORT };
  return { ...asking, whole: await asking.mesh.startProxy({ ...WHOLE, mode: 'delta', dnsServer }) };
}
