/**
 * The `Mock` registry: a few built-in services, for trying out the programs without an orchestrator and without files.
 * They are documents in the form of Kubernetes, and are parsed in the same way.
 */
import type { Clock } from '../core/clock.ts';
import { InternalError } from '../core/errors.ts';
import { type ListedEvent, parseResource } from '../resources/index.ts';
import type { Source } from './source.ts';

const SOURCE = 'mock';
const NAMESPACE = 'default';

const PORTS = [
  { name: 'http', port: 80, targetPort: 8080 },
  { name: 'grpc', port: 90, targetPort: 9090 },
  { name: 'tcp', port: 100, targetPort: 10000 },
];

/** Two services of two pods each, in versions v1 and v2; the pods' addresses end in 1 and 2. */
const SERVICES = [
  { name: 'hello', clusterIP: '10.1.0.0', podNet: '10.1.1' },
  { name: 'world', clusterIP: '10.2.0.0', podNet: '10.2.1' },
];
const VERSIONS = ['v1', 'v2'];

export interface MockSourceOptions {
  readonly cluster: string;
  readonly clock: Clock;
}

/** Has `hello.default` and `world.default` with their pods and endpoints; nothing changes after the first list. */
export function createMockSource({ cluster, clock }: MockSourceOptions): Source {
  const first = Promise.withResolvers<void>();
  return {
    id: SOURCE,
    cluster,
    synced: first.promise,
    health: () => ({ ok: true }),
    start(sink) {
      const eventTime = clock.now();
      sink.replace({ events: documents().map((document) => eventOf(document, eventTime)), eventTime });
      first.resolve();
    },
    close: async () => {},
  };
}

function eventOf(document: unknown, eventTime: number): ListedEvent {
  const parsed = parseResource(document, { source: SOURCE }, () => undefined);
  if ('resource' in parsed) return { type: 'set', resource: parsed.resource, eventTime };
  throw new InternalError(
    'problem' in parsed ? `${parsed.problem.field}: ${parsed.problem.message}` : parsed.ignored.what,
  );
}

function documents(): unknown[] {
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } };
  return [namespace, ...SERVICES.flatMap(serviceDocuments)];
}

function serviceDocuments({ name, clusterIP, podNet }: (typeof SERVICES)[number]): unknown[] {
  const pods = VERSIONS.map((version, index) => ({
    name: `${name}-${version}`,
    version,
    ip: `${podNet}.${index + 1}`,
  }));
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: NAMESPACE, labels: { app: name } },
    spec: { clusterIP, selector: { app: name }, ports: PORTS },
  };
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${name}-1`, namespace: NAMESPACE, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    ports: PORTS.map((port) => ({ name: port.name, port: port.targetPort })),
    endpoints: pods.map((pod) => ({
      addresses: [pod.ip],
      conditions: { ready: true },
      targetRef: { kind: 'Pod', namespace: NAMESPACE, name: pod.name },
    })),
  };
  // Kubernetes has both: CTL_USE_ENDPOINT_SLICE decides which of them is used.
  const endpoints = {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name, namespace: NAMESPACE },
    subsets: [
      {
        addresses: pods.map((pod) => ({
          ip: pod.ip,
          targetRef: { kind: 'Pod', namespace: NAMESPACE, name: pod.name },
        })),
        ports: PORTS.map((port) => ({ name: port.name, port: port.targetPort })),
      },
    ],
  };
  return [service, endpoints, slice, ...pods.map((pod) => podDocument(name, pod))];
}

function podDocument(app: string, pod: { name: string; version: string; ip: string }): unknown {
  const containerPorts = PORTS.map((port) => ({ name: port.name, containerPort: port.targetPort }));
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: pod.name, namespace: NAMESPACE, labels: { app, version: pod.version } },
    spec: { serviceAccountName: app, containers: [{ name: app, ports: containerPorts }] },
    status: {
      phase: 'Running',
      podIP: pod.ip,
      podIPs: [{ ip: pod.ip }],
      conditions: [{ type: 'Ready', status: 'True' }],
    },
  };
}
