/**
 * What reading a Kubernetes cluster costs: time to ready, CPU, memory and bytes from a real API server, beside the same
 * objects from a directory. Each endpoint of a service is a Pod with an EndpointSlice of its own.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { tempDir } from '../../test/harness/files.ts';
import {
  type Kubernetes,
  kubeconfig,
  kubernetesUnavailable,
  startKubernetes,
} from '../../test/harness/kubernetes/index.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import { definition } from '../../test/kubernetes/support/definitions.ts';
import type { Bench, BenchContext } from '../mesh.ts';
import type { BenchOptions } from '../options.ts';
import { cpuSeconds, memoryOf } from '../process-stats.ts';
import type { Table } from '../results.ts';
import { type ServerOptions, startServer } from '../server.ts';

/** Requests to the API server at once while the objects are created. */
const WRITERS = 16;
const MIB = 1024 * 1024;
const DEFINITIONS = [
  definition('VirtualService', 'virtualservices', 'networking.mesh.io', 'v1alpha3'),
  definition('DestinationRule', 'destinationrules', 'networking.mesh.io', 'v1alpha3'),
];

interface BenchObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

const COLLECTIONS: Readonly<Record<string, string>> = {
  Service: 'services',
  Pod: 'pods',
  EndpointSlice: 'endpointslices',
  VirtualService: 'virtualservices',
  DestinationRule: 'destinationrules',
};

function addressOf(index: number): string {
  return `10.${128 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
}

function podOf(namespace: string, service: string, index: number): BenchObject {
  const probe = { httpGet: { path: '/healthz', port: 8080 }, periodSeconds: 10 };
  const env = ['REGION', 'LOG_LEVEL', 'DATABASE', 'FEATURES'].map((name) => ({ name, value: `${service}-${name}` }));
  const resources = { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${service}-${index}`,
      namespace,
      labels: { app: service, version: 'v1', 'pod-template-hash': '6d4b75cb6d' },
    },
    spec: {
      serviceAccountName: 'default',
      nodeName: `node-${index % 200}`,
      containers: [
        {
          name: 'app',
          image: `registry.example/${service}:1.0.0`,
          ports: [{ name: 'http', containerPort: 8080 }],
          env,
          resources,
          readinessProbe: probe,
          livenessProbe: probe,
        },
      ],
    },
    status: {
      phase: 'Running',
      podIP: addressOf(index),
      podIPs: [{ ip: addressOf(index) }],
      hostIP: '10.0.0.1',
      conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map((type) => ({ type, status: 'True' })),
    },
  };
}

function sliceOf(namespace: string, service: string, index: number): BenchObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${service}-${index}`, namespace, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [
      {
        addresses: [addressOf(index)],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: `node-${index % 200}`,
        zone: `zone-${index % 3}`,
        targetRef: { kind: 'Pod', namespace, name: `${service}-${index}` },
      },
    ],
  };
}

function* objectsOf({ services, endpoints, namespaces }: BenchOptions): Generator<BenchObject> {
  for (let number = 0; number < services; number++) {
    const [name, namespace] = [`svc-${number}`, `ns-${number % namespaces}`];
    const metadata = { name, namespace };
    const ports = [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }];
    yield { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: { app: name }, ports } };
    const host = `${name}.${namespace}.svc.cluster.local`;
    const apiVersion = 'networking.mesh.io/v1alpha3';
    yield number % 2 === 0
      ? {
          apiVersion,
          kind: 'VirtualService',
          metadata,
          spec: { hosts: [host], http: [{ timeout: '5s', route: [{ destination: { host } }] }] },
        }
      : {
          apiVersion,
          kind: 'DestinationRule',
          metadata,
          spec: { host, trafficPolicy: { connectionPool: { http: { http1MaxPendingRequests: 100 } } } },
        };
    for (let endpoint = 0; endpoint < endpoints; endpoint++) {
      const index = number * endpoints + endpoint;
      yield podOf(namespace, name, index);
      yield sliceOf(namespace, name, index);
    }
  }
}

async function create({ api }: Kubernetes, object: BenchObject): Promise<void> {
  const { apiVersion, kind, metadata } = object;
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const path = `${root}/namespaces/${metadata.namespace}/${COLLECTIONS[kind]}`;
  const written = await api.request({ method: 'POST', path, body: object });
  if (written.status !== 201) throw new Error(`${path} answered ${written.status}: ${written.body}`);
  if (kind !== 'Pod') return;
  const contentType = 'application/merge-patch+json';
  const body = { status: object.status };
  await api.request({ method: 'PATCH', path: `${path}/${metadata.name}/status`, contentType, body });
}

async function load(cluster: Kubernetes, options: BenchOptions): Promise<number> {
  await cluster.api.apply(DEFINITIONS);
  const namespaces = Array.from({ length: options.namespaces }, (_, index) => `ns-${index}`);
  await cluster.api.apply(namespaces.map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })));
  const [probe] = [...objectsOf({ ...options, services: 2, endpoints: 0 })].filter(
    ({ kind }) => kind === 'VirtualService',
  );
  // Patiently: the storage of the definitions is still being made.
  if (probe !== undefined) await cluster.api.apply([probe]).then(() => cluster.api.delete(probe));
  const objects = objectsOf(options);
  let count = 0;
  const write = async (): Promise<void> => {
    for (let next = objects.next(); next.done !== true; next = objects.next()) {
      await create(cluster, next.value);
      count++;
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
  return count;
}

/** Passes connections on to the API server and counts what it sends. */
async function countingRelay(owner: Owner, target: number): Promise<{ port: number; bytes: () => number }> {
  let bytes = 0;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    far.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    for (const socket of [near, far]) sockets.add(socket.on('error', () => {}));
    near.pipe(far);
    far.pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  owner.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, bytes: () => bytes };
}

type Source = Pick<ServerOptions, 'configDir' | 'kubeconfig'>;

/** One start until ready, in a process of its own. */
async function start(context: BenchContext, source: Source) {
  const scope = createScope();
  try {
    const { program, profiles } = context;
    const server = await startServer(scope, {
      program,
      ...source,
      env: { CTL_USE_ENDPOINT_SLICE: 'true' },
      ...(profiles === undefined ? {} : { profiles }),
    });
    const { rssMiB, peakMiB } = memoryOf(server.pid);
    return { ms: server.readyAt - server.startedAt, cpu: cpuSeconds(server.pid), rssMiB, peakMiB };
  } finally {
    await scope.close();
  }
}

async function directoryOf(owner: Owner, options: BenchOptions): Promise<string> {
  const folder = await tempDir(owner);
  await mkdir(folder, { recursive: true });
  const texts = new Map<string, string[]>();
  for (const object of objectsOf(options)) {
    const file = `${object.metadata.namespace}-${object.kind}.yaml`;
    const all = texts.get(file) ?? [];
    texts.set(file, all);
    // JSON is YAML; as many documents in a file.
    all.push(JSON.stringify(object));
  }
  for (const [file, documents] of texts) await writeFile(join(folder, file), documents.join('\n---\n'));
  return folder;
}

async function measure(owner: Owner, context: BenchContext): Promise<Table> {
  const { options, progress } = context;
  const cluster = await startKubernetes(owner);
  const relay = await countingRelay(owner, Number(new URL(cluster.url).port));
  progress('creating objects');
  const objects = await load(cluster, options);
  const file = join(await tempDir(owner), 'kubeconfig');
  await writeFile(file, kubeconfig({ ...cluster.as(cluster.admin), url: `https://127.0.0.1:${relay.port}` }));
  const folder = await directoryOf(owner, options);
  const rows: (string | number)[][] = [];
  const sources: readonly (readonly [string, Source])[] = [
    ['API server', { kubeconfig: file }],
    ['directory', { configDir: folder }],
  ];
  for (let round = 0; round < options.rounds; round++) {
    for (const [name, source] of sources) {
      const before = relay.bytes();
      progress(`start from the ${name}`);
      const { ms, cpu, rssMiB, peakMiB } = await start(context, source);
      const received = (relay.bytes() - before) / MIB;
      const cells = [ms, cpu, rssMiB, peakMiB, received].map((value, index) => value.toFixed(index === 0 ? 0 : 1));
      rows.push([name, objects, ...cells]);
    }
  }
  return {
    title: `Start from a Kubernetes API server: ${objects} objects`,
    columns: ['source', 'objects', 'ms to ready', 'CPU s', 'RSS MiB', 'peak MiB', 'MiB received'],
    rows,
  };
}

export const kubernetes: Bench = {
  name: 'kubernetes',
  about: 'start from a real API server and from a directory: time, CPU, memory, bytes',
  async run(context) {
    const reason = kubernetesUnavailable();
    if (reason !== undefined) {
      context.progress(`SKIPPED: ${reason}`);
      return { rows: [] };
    }
    const scope = createScope();
    try {
      return { rows: [], tables: [await measure(scope, context)] };
    } finally {
      await scope.close();
    }
  },
};
