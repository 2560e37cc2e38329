/** Random resources from small pools, so that they often refer to each other. For tests. */
import * as fc from '../../core/testing/properties.ts';
import { type AnyResource, CLUSTER_KINDS, type Kind } from '../../resources/kinds/types.ts';
import type { MeshNetworks } from '../../resources/mesh-config.ts';
import { fqdn, type MetaFields, resource } from './build.ts';
import type { Questions } from './dump.ts';

const NAMESPACES = ['a', 'b', 'mesh-system'];
const NAMES = ['x', 'y'];
const ADDRESSES = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
const EXTERNAL = [
  'api.example.com',
  '*.example.com',
  'db.example.com',
  '10.0.0.1',
  fqdn('x.a'),
  fqdn('*.b'),
  fqdn('y.b'),
];
const HOSTS = [...NAMESPACES.flatMap((ns) => NAMES.map((name) => fqdn(`${name}.${ns}`))), ...EXTERNAL];

export const QUESTIONS: Questions = {
  proxies: NAMESPACES.flatMap((namespace) => [{}, { app: 'x' }].map((labels) => ({ namespace, labels }))),
  hosts: HOSTS,
  addresses: ADDRESSES,
  networks: ['', 'n1', 'n2', 'n3'],
  gateways: NAMESPACES.flatMap((ns) => NAMES.map((name) => `${ns}/${name}`)),
};

/** Another cluster, `far`, has a network of its own; a few addresses are of a third one, wherever they are. */
export const NETWORKS: MeshNetworks = {
  networks: {
    n2: { endpoints: [{ fromRegistry: 'far' }], gateways: [] },
    n3: { endpoints: [{ fromCidr: '10.0.0.3/32' }], gateways: [] },
  },
};

const namespace = fc.constantFrom(...NAMESPACES);
const name = fc.constantFrom(...NAMES);
/**
 * One of them is more common, so that several versions of a resource, and resources about each other, follow in one
 * history.
 */
const path = fc.oneof(
  { weight: 2, arbitrary: fc.constant('a/x') },
  { weight: 3, arbitrary: fc.tuple(namespace, name).map(([ns, n]) => `${ns}/${n}`) },
);
const created = fc.constantFrom(undefined, 1000, 2000);
const exportTo = fc.constantFrom(undefined, ['*'], ['.'], ['a'], ['b', '.'], ['~']);
const labels = fc.constantFrom(
  {},
  { app: 'x', 'security.mesh.io/tlsMode': 'mesh' },
  { app: 'y', 'topology.mesh.io/network': 'n1' },
);
const selector = fc.constantFrom({ app: 'x' }, { app: 'y' });
const host = fc.constantFrom(...HOSTS, 'x', 'y');
const address = fc.constantFrom(...ADDRESSES);

const meta = fc.record({ created, labels }).map(({ created: at, labels: own }) => ({
  ...(at === undefined ? {} : { created: at }),
  labels: own,
}));
const cluster = fc.constantFrom(undefined, undefined, 'far', 'Far2');

const ofClusters: ReadonlySet<Kind> = new Set<Kind>(CLUSTER_KINDS);

/** In one of several clusters, where the kind has them. */
function placed(kind: Kind, path: string, content: unknown, fields: MetaFields, where: string | undefined) {
  return resource(kind, path, content, {
    ...fields,
    ...(where !== undefined && ofClusters.has(kind) && { cluster: where }),
  });
}

function some(kind: Kind, content: fc.Arbitrary<unknown>, where: fc.Arbitrary<string> = path) {
  return fc
    .tuple(where, content, meta, cluster)
    .map(([at, body, fields, inside]) => placed(kind, at, body, fields, inside));
}

const servicePorts = fc.constantFrom(
  [{ name: 'http', port: 80 }],
  [{ name: 'http', port: 81 }],
  [
    { name: 'http', port: 80 },
    { name: 'tcp-db', port: 3306, targetPort: 33 },
  ],
  [
    { port: 80, protocol: 'TCP' },
    { name: 'dns', port: 80, protocol: 'UDP' },
  ],
);

const services = fc
  .tuple(
    some(
      'Service',
      fc
        .record({ ports: servicePorts, clusterIP: fc.constantFrom('10.1.0.1', '10.1.0.2', 'None'), selector })
        .map((spec) => ({ spec })),
    ),
    exportTo,
  )
  .map(([made, names]): AnyResource => {
    if (names === undefined) return made;
    const annotations = { 'networking.mesh.io/exportTo': names.join() };
    return resource('Service', `${made.meta.namespace}/${made.meta.name}`, made.content, { ...made.meta, annotations });
  });

const backing = fc.record(
  {
    ip: address,
    targetRef: name.map((pod) => ({ kind: 'Pod', name: pod })),
    nodeName: fc.constantFrom('n1', 'n2'),
  },
  { requiredKeys: ['ip'] },
);
const endpointPorts = fc.constantFrom(
  [{ name: 'http', port: 8080 }],
  [
    { name: 'http', port: 8080 },
    { name: 'tcp-db', port: 33 },
  ],
  [{ port: 81 }],
);
/** One of the objects may be what an API server writes about itself. */
const ofEndpoints = fc.oneof(
  { weight: 6, arbitrary: path },
  { weight: 1, arbitrary: fc.constant('default/kubernetes') },
);
const endpoints = some(
  'Endpoints',
  fc
    .record({
      addresses: fc.array(backing, { maxLength: 2 }),
      notReadyAddresses: fc.array(backing, { maxLength: 1 }),
      ports: endpointPorts,
    })
    .map((subset) => ({ subsets: [subset] })),
  ofEndpoints,
);
const slices = fc
  .tuple(
    ofEndpoints,
    name,
    fc.array(fc.tuple(backing, fc.record({ ready: fc.boolean(), serving: fc.boolean(), terminating: fc.boolean() })), {
      maxLength: 2,
    }),
    endpointPorts,
    cluster,
  )
  .map(([at, of, written, ports, where]) =>
    placed(
      'EndpointSlice',
      at,
      {
        addressType: 'IPv4',
        endpoints: written.map(([{ ip, ...rest }, conditions]) => ({ addresses: [ip], ...rest, conditions })),
        ports,
      },
      { labels: { 'kubernetes.io/service-name': of } },
      where,
    ),
  );
const pods = some(
  'Pod',
  fc
    .record({
      ip: address,
      node: fc.constantFrom('n1', 'n2'),
      ready: fc.boolean(),
      phase: fc.constantFrom('Running', 'Failed'),
      hostNetwork: fc.boolean(),
    })
    .map(({ ip, node, ready, phase, hostNetwork }) => ({
      spec: { nodeName: node, hostNetwork },
      status: { phase, podIP: ip, conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
    })),
);
const nodes = fc
  .tuple(fc.constantFrom('/n1', '/n2'), fc.constantFrom('r1', 'r2'), fc.array(address, { maxLength: 1 }), cluster)
  .map(([at, region, addresses, where]) => {
    const status = { addresses: addresses.map((own) => ({ type: 'InternalIP', address: own })) };
    return placed('Node', at, { status }, { labels: { 'topology.kubernetes.io/region': region } }, where);
  });

const workload = fc.record(
  {
    address: fc.constantFrom(...ADDRESSES, 'db.internal', 'unix:///run/x.sock'),
    labels,
    weight: fc.constantFrom(1, 2),
    ports: fc.constantFrom({ http: 9000 }, {}),
  },
  { requiredKeys: ['address'] },
);
const serviceEntries = some(
  'ServiceEntry',
  fc.record(
    {
      hosts: fc.uniqueArray(fc.constantFrom(...EXTERNAL), { minLength: 1, maxLength: 2 }),
      ports: fc.constantFrom(
        [{ number: 80, name: 'http', protocol: 'HTTP' }],
        [{ number: 443, name: 'tls', protocol: 'TLS' }],
        [{ number: 80, name: 'tcp', protocol: 'TCP' }],
      ),
      resolution: fc.constantFrom('STATIC', 'DNS', 'NONE'),
      endpoints: fc.array(workload, { maxLength: 2 }),
      addresses: fc.constantFrom(
        ['10.1.0.1'],
        ['10.1.0.1/32', '10.1.0.2'],
        ['10.1.0.0/24'],
        ['10.0.0.2', '10.0.0.0/30'],
      ),
      workloadSelector: selector.map((own) => ({ labels: own })),
      exportTo: exportTo.map((names) => names ?? ['*']),
    },
    { requiredKeys: ['hosts', 'ports'] },
  ),
);

const destination = fc.record({ host }).map((to) => ({ destination: to }));
const virtualServices = some(
  'VirtualService',
  fc.record(
    {
      hosts: fc.array(host, { minLength: 1, maxLength: 2 }),
      gateways: fc.constantFrom(['mesh'], ['x'], ['mesh', 'a/x']),
      http: fc
        .tuple(fc.array(destination, { minLength: 1, maxLength: 2 }), fc.constantFrom({}, { version: 'v1' }))
        .map(([route, sourceLabels]) => [{ match: [{ sourceLabels }], route }]),
      exportTo: exportTo.map((names) => names ?? ['*']),
    },
    { requiredKeys: ['hosts'] },
  ),
);
const destinationRules = some(
  'DestinationRule',
  fc.record(
    {
      host: fc.oneof(host, fc.constantFrom('*.svc.cluster.local', '*.com')),
      subsets: fc.constantFrom([{ name: 'v1', labels: { version: 'v1' } }], [{ name: 'v1' }, { name: 'v2' }]),
      trafficPolicy: fc.constantFrom(
        { loadBalancer: { simple: 'RANDOM' } },
        { loadBalancer: { simple: 'ROUND_ROBIN' } },
      ),
      exportTo: exportTo.map((names) => names ?? ['*']),
      workloadSelector: fc.constantFrom({}, { matchLabels: { app: 'a' } }, { matchLabels: { version: 'v1' } }),
    },
    { requiredKeys: ['host'] },
  ),
);
const egressHost = fc.constantFrom(
  '*/*',
  './*',
  'a/*',
  'b/*.svc.cluster.local',
  '*/api.example.com',
  '*/*.example.com',
  '~/*',
  '~b/*',
  '~/api.example.com',
  `b/${fqdn('x.b')}`,
);
const sidecars = some(
  'Sidecar',
  fc.record(
    {
      workloadSelector: selector.map((own) => ({ labels: own })),
      egress: fc.array(
        fc.record(
          {
            hosts: fc.array(egressHost, { minLength: 1, maxLength: 2 }),
            port: fc.constantFrom(
              { number: 80, protocol: 'HTTP', name: 'h' },
              { number: 81, protocol: 'HTTP_PROXY', name: 'p' },
            ),
          },
          { requiredKeys: ['hosts'] },
        ),
        { maxLength: 2 },
      ),
      inboundConnectionPool: fc.constantFrom({ tcp: { maxConnections: 1 } }, { http: { maxRetries: 1 } }),
      outboundTrafficPolicy: fc.constantFrom<object>(
        { mode: 'REGISTRY_ONLY' },
        { mode: 'ALLOW_ANY' },
        { mode: 'ALLOW_ANY', egressProxy: { host: 'web', port: { number: 80 } } },
      ),
    },
    { requiredKeys: [] },
  ),
);
const gateways = some(
  'Gateway',
  fc.record({
    selector,
    servers: fc.constant([{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }]),
  }),
);

const mode = fc.constantFrom(undefined, 'UNSET', 'STRICT', 'PERMISSIVE', 'DISABLE');
const mutualTls = mode.map((of) => (of === undefined ? {} : { mode: of }));
const peerAuthentications = some(
  'PeerAuthentication',
  fc.record(
    {
      selector: selector.map((matchLabels) => ({ matchLabels })),
      mtls: mutualTls,
      portLevelMtls: mutualTls.map((of) => ({ 8080: of })),
    },
    { requiredKeys: [] },
  ),
);

export const anyResource: fc.Arbitrary<AnyResource> = fc.oneof(
  { weight: 2, arbitrary: services },
  { weight: 2, arbitrary: endpoints },
  slices,
  { weight: 2, arbitrary: pods },
  nodes,
  { weight: 2, arbitrary: serviceEntries },
  some('WorkloadEntry', workload),
  { weight: 2, arbitrary: virtualServices },
  { weight: 2, arbitrary: destinationRules },
  { weight: 2, arbitrary: sidecars },
  gateways,
  { weight: 2, arbitrary: peerAuthentications },
);

/** Networks of another mesh: what the first has of `far` and of an address is otherwise here. */
export const OTHER_NETWORKS: MeshNetworks = {
  networks: {
    n1: { endpoints: [{ fromRegistry: 'far' }, { fromCidr: '10.0.0.0/30' }], gateways: [] },
  },
};

/** Batches of changes of a mesh. A delete names the key of the resource it carries. */
export interface Operation {
  readonly resource: AnyResource;
  readonly remove: boolean;
}

export const history: fc.Arbitrary<Operation[][]> = fc.array(
  fc.array(
    fc.record({
      resource: anyResource,
      remove: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    }),
    { minLength: 1, maxLength: 6 },
  ),
  { minLength: 1, maxLength: 12 },
);
