/** Resources of a generated mesh in the form that the store passes on, for benches of the model alone. */
import { SCHEMAS } from '../../src/resources/kinds/schemas.ts';
import { type AnyResource, type Kind, keyOf, type ResourceChange } from '../../src/resources/kinds/types.ts';

/** Pods' addresses: `10.x.x.x`. */
function address(number: number): string {
  return `10.${(number >> 16) & 255}.${(number >> 8) & 255}.${number & 255}`;
}

function resource(
  kind: Kind,
  namespace: string,
  name: string,
  content: unknown,
  labels: Readonly<Record<string, string>> = {},
): AnyResource {
  const meta = { name, namespace, labels, annotations: {}, created: 1 };
  const parsed = SCHEMAS[kind].parse(content);
  const fingerprint = JSON.stringify([kind, meta, parsed]);
  return { kind, meta, content: parsed, origin: { source: 'bench' }, fingerprint } as AnyResource;
}

export function changesOf(resources: readonly AnyResource[]): ResourceChange[] {
  return resources.map((after) => ({ key: keyOf(after), before: undefined, after }));
}

/** Namespace of the `number`th thing. */
export function namespaceOf(number: number, namespaces: number): string {
  return `ns-${number % namespaces}`;
}

export function serviceOf(namespace: string, name: string, number: number): AnyResource {
  const ports = [
    { name: 'http', port: 8080 },
    { name: 'tcp', port: 9090 },
  ];
  return resource('Service', namespace, name, { spec: { clusterIP: address(0xc00000 + number), ports } });
}

export function podOf(namespace: string, service: string, number: number): AnyResource {
  const spec = { nodeName: `node-${number % 100}`, serviceAccountName: service };
  const status = { phase: 'Running', podIP: address(number) };
  return resource(
    'Pod',
    namespace,
    `${service}-${number}`,
    { spec, status },
    { app: service, version: `v${number % 2}`, 'security.mesh.io/tlsMode': 'mesh' },
  );
}

export function nodeOf(number: number): AnyResource {
  return resource('Node', '', `node-${number}`, {}, { 'topology.kubernetes.io/zone': `zone-${number % 3}` });
}

/** A slice of a service with these pods; `broken` is the number of unready ones. */
export function sliceOf(
  namespace: string,
  service: string,
  index: number,
  pods: { readonly from: number; readonly count: number },
  broken = 0,
): AnyResource {
  const endpoints = Array.from({ length: pods.count }, (_, at) => ({
    addresses: [address(pods.from + at)],
    conditions: { ready: at >= broken },
    targetRef: { kind: 'Pod', namespace, name: `${service}-${pods.from + at}` },
  }));
  const ports = [
    { name: 'http', port: 8080, protocol: 'TCP' },
    { name: 'tcp', port: 9090, protocol: 'TCP' },
  ];
  const labels = { 'kubernetes.io/service-name': service };
  return resource('EndpointSlice', namespace, `${service}-${index}`, { addressType: 'IPv4', endpoints, ports }, labels);
}

export function routeOf(namespace: string, service: string, version: number): AnyResource {
  const http = [
    {
      match: [{ headers: { 'x-canary': { exact: `${version}` } } }],
      route: [{ destination: { host: service, subset: 'v1' } }],
    },
    { route: [{ destination: { host: service } }] },
  ];
  return resource('VirtualService', namespace, service, { hosts: [service], http });
}
