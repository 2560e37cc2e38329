/** The Kubernetes client with a real API server: objects in protobuf and JSON are read alike. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/core/clock.ts';
import { readBody } from '../../src/kubernetes/body.ts';
import {
  Connection,
  KubernetesClient,
  type KubernetesObject,
  type ResourceType,
  readKubeconfig,
} from '../../src/kubernetes/index.ts';
import { ObjectReader, pathOf } from '../../src/kubernetes/objects.ts';
import { parseResource } from '../../src/resources/index.ts';
import { kubernetesUnavailable, startKubernetes } from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;

const core = (plural: string, kind: string, namespaced = true): ResourceType => ({
  group: '',
  version: 'v1',
  plural,
  kind,
  namespaced,
});

const TYPES: readonly ResourceType[] = [
  core('endpoints', 'Endpoints'),
  core('namespaces', 'Namespace', false),
  core('nodes', 'Node', false),
  core('pods', 'Pod'),
  core('secrets', 'Secret'),
  core('serviceaccounts', 'ServiceAccount'),
  core('services', 'Service'),
  { group: 'discovery.k8s.io', version: 'v1', plural: 'endpointslices', kind: 'EndpointSlice', namespaced: true },
];

/** Objects with every field that is read, and objects with as many empty fields as possible. */
const OBJECTS = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled, empty: ""}, annotations: {mesh.io/x: "1", other: large}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {topology.kubernetes.io/region: r1}}
spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 10.1.0.1}], capacity: {cpu: "4"}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  type: NodePort
  selector: {app: web, istio: gateway}
  externalIPs: [192.0.2.1]
  sessionAffinity: ClientIP
  publishNotReadyAddresses: true
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  ports:
  - {name: http, port: 80, targetPort: 8080, appProtocol: http, nodePort: 30080}
  - {name: udp, port: 53, protocol: UDP, targetPort: dns}
---
apiVersion: v1
kind: Secret
metadata: {name: web, namespace: shop}
type: Opaque
data: {text: aGVsbG8=, none: "", bytes: //79/AAB}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: shop}
spec: {type: ExternalName, externalName: example.com}
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: shop}
spec: {clusterIP: None, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: balanced, namespace: shop}
spec: {type: LoadBalancer, ports: [{name: a, port: 80}]}
status: {loadBalancer: {ingress: [{ip: 203.0.113.1}, {hostname: lb.example.com}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec:
  serviceAccountName: web
  nodeName: node-1
  hostname: web-1
  subdomain: headless
  initContainers: [{name: init, image: i}]
  containers:
  - {name: app, image: i, ports: [{name: http, containerPort: 8080}, {containerPort: 53, protocol: UDP}]}
  - {name: side, image: i, env: [{name: A, value: b}]}
status:
  phase: Running
  podIP: 10.244.1.2
  podIPs: [{ip: 10.244.1.2}, {ip: "fd00::2"}]
  hostIP: 10.1.0.1
  conditions: [{type: Ready, status: "True"}, {type: PodScheduled, status: "True"}]
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: shop}
spec: {hostNetwork: true, containers: [{name: app, image: i}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: web, namespace: shop}
subsets:
- addresses:
  - {ip: 10.244.1.2, hostname: web-1, nodeName: node-1, targetRef: {kind: Pod, namespace: shop, name: web-1}}
  notReadyAddresses: [{ip: 10.244.1.3}]
  ports: [{name: http, port: 8080, appProtocol: http}, {name: udp, port: 53, protocol: UDP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-a, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: "", port: 8080, protocol: TCP}, {name: grpc, port: 9090, appProtocol: grpc}]
endpoints:
- addresses: [10.244.1.2]
  conditions: {ready: false, serving: true, terminating: true}
  hostname: web-1
  nodeName: node-1
  zone: a
  targetRef: {kind: Pod, namespace: shop, name: web-1}
- {addresses: [10.244.1.3, 10.244.1.4]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: empty, namespace: shop}
addressType: FQDN
endpoints: []
`;

/** The mesh's form of an object, without the fields that only identify its version. */
function readObject(object: KubernetesObject): unknown {
  const parsed = parseResource(object, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

test('objects in protobuf mean the same as in JSON', { skip }, async (t) => {
  const cluster = await startKubernetes(t);
  await cluster.api.apply(OBJECTS);
  const access = await readKubeconfig(await cluster.kubeconfig(t));
  const connection = new Connection({
    access,
    clock: systemClock,
    random: Math.random,
    userAgent: 'test',
  });
  connection.observe({ lost: assert.fail, reached: assert.fail });
  t.after(() => connection.close());
  const list = async (type: ResourceType, accept: string) => {
    const response = await connection.open({ method: 'GET', path: pathOf(type), accept, timeoutMs: 30_000 });
    const body = await readBody(response, 10_000_000);
    const page = new ObjectReader(type).list(body, response.headers['content-type'] ?? '');
    assert.ok(page.objects.every(({ error }) => error === undefined));
    return { body, objects: page.objects.map(({ object }) => object) };
  };
  for (const type of TYPES) {
    const json = await list(type, 'application/json');
    const protobuf = await list(type, new ObjectReader(type).accept('list'));
    assert.equal(protobuf.body.subarray(0, 3).toString(), 'k8s', type.kind);
    assert.ok(json.objects.length > 0, type.kind);
    assert.deepEqual(protobuf.objects.map(readObject), json.objects.map(readObject));
    const versions = ({ metadata }: KubernetesObject) => [metadata.uid, metadata.resourceVersion, metadata.generation];
    assert.deepEqual(protobuf.objects.map(versions), json.objects.map(versions));
  }
  // Every kind can be requested as metadata only.
  const metadataOnly: ResourceType = { ...core('configmaps', 'ConfigMap'), metadataOnly: true };
  const { body, objects } = await list(metadataOnly, new ObjectReader(metadataOnly).accept('list'));
  assert.equal(body.subarray(0, 3).toString(), 'k8s');
  assert.ok(objects.every((object) => object.data === undefined));
  const shop = await new KubernetesClient(connection).get(core('namespaces', 'Namespace', false), 'shop');
  assert.equal(shop.metadata.name, 'shop');
});
