/** The objects of the `kubernetes` bench, in an API server and in a directory: each endpoint is a Pod with a slice. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '../../test/harness/files.ts';
import type { Kubernetes } from '../../test/harness/kubernetes/index.ts';
import type { Owner } from '../../test/harness/owner.ts';
import { definition } from '../../test/kubernetes/support/definitions.ts';
import type { BenchOptions, Content } from '../options.ts';

/** Requests to the API server at once while the objects are created. */
const WRITERS = 16;
const DEFINITIONS = [
  definition('VirtualService', 'virtualservices', 'networking.istio.io'),
  definition('DestinationRule', 'destinationrules', 'networking.istio.io'),
];

export interface BenchObject {
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

/** Labels as a Deployment and, with a sidecar, injection write them. */
function labelsOf(service: string, content: Content): Readonly<Record<string, string>> {
  const labels = { app: service, version: 'v1', 'pod-template-hash': '6d4b75cb6d' };
  return content === 'mtls' ? { ...labels, 'security.istio.io/tlsMode': 'istio' } : labels;
}

function podOf(namespace: string, service: string, index: number, content: Content): BenchObject {
  const probe = { httpGet: { path: '/healthz', port: 8080 }, periodSeconds: 10 };
  const env = ['REGION', 'LOG_LEVEL', 'DATABASE', 'FEATURES'].map((name) => ({ name, value: `${service}-${name}` }));
  const resources = { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${service}-${index}`,
      namespace,
      labels: labelsOf(service, content),
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

/** @param ready whether its endpoint takes requests */
export function sliceOf(namespace: string, service: string, index: number, ready = true): BenchObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${service}-${index}`, namespace, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [
      {
        addresses: [addressOf(index)],
        conditions: { ready, serving: ready, terminating: false },
        nodeName: `node-${index % 200}`,
        zone: `zone-${index % 3}`,
        targetRef: { kind: 'Pod', namespace, name: `${service}-${index}` },
      },
    ],
  };
}

function* objectsOf({ services, endpoints, namespaces, content }: BenchOptions): Generator<BenchObject> {
  for (let number = 0; number < services; number++) {
    const [name, namespace] = [`svc-${number}`, `ns-${number % namespaces}`];
    const metadata = { name, namespace };
    const ports = [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }];
    yield { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: { app: name }, ports } };
    const host = `${name}.${namespace}.svc.cluster.local`;
    const apiVersion = 'networking.istio.io/v1';
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
      yield podOf(namespace, name, index, content);
      yield sliceOf(namespace, name, index);
    }
  }
}

/** Path of an object's collection. */
export function collectionOf({ apiVersion, kind, metadata }: BenchObject): string {
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  return `${root}/namespaces/${metadata.namespace}/${COLLECTIONS[kind]}`;
}

async function create({ api }: Kubernetes, object: BenchObject): Promise<void> {
  const { kind, metadata } = object;
  const path = collectionOf(object);
  const written = await api.request({ method: 'POST', path, body: object });
  if (written.status !== 201) throw new Error(`${path} answered ${written.status}: ${written.body}`);
  if (kind !== 'Pod') return;
  const contentType = 'application/merge-patch+json';
  const body = { status: object.status };
  await api.request({ method: 'PATCH', path: `${path}/${metadata.name}/status`, contentType, body });
}

/** Creates all objects; returns how many. */
export async function load(cluster: Kubernetes, options: BenchOptions): Promise<number> {
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

/** A directory with the same objects. */
export async function directoryOf(owner: Owner, options: BenchOptions): Promise<string> {
  const folder = await tempDir(owner);
  const texts = new Map<string, string[]>();
  for (const object of objectsOf(options)) {
    const file = fileOf(object);
    const all = texts.get(file) ?? [];
    texts.set(file, all);
    // JSON is YAML; as many documents in a file.
    all.push(JSON.stringify(object));
  }
  for (const [file, documents] of texts) await writeFile(join(folder, file), documents.join('\n---\n'));
  return folder;
}

/** Endpoints change one by one, so each has a file of its own. */
export function fileOf({ kind, metadata }: BenchObject): string {
  return kind === 'EndpointSlice'
    ? `${metadata.name}.${metadata.namespace}.yaml`
    : `${metadata.namespace}-${kind}.yaml`;
}
