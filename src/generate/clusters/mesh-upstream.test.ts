import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { generate } from '../generate.ts';
import { meshOf, meshResource } from '../testing/mesh.ts';
import type { OutboundView } from '../views.ts';

const VIEW: OutboundView = {
  part: 'outbound',
  scope: 'shop/',
  namespace: 'shop',
  interception: 'REDIRECT',
  families: 'ipv4',
  sourceLabels: {},
  dnsDomain: 'shop.svc.cluster.local',
  virtualHosts: 'inline',
  endpointNames: 'cluster',
  capabilities: { extensions: undefined, sds: true },
};

/** The clusters of a service entry, by name; Envoy's own rules accept each of them. */
function clustersOf(spec: object, rule?: object) {
  const resources = [
    ['ServiceEntry', spec] as const,
    ...(rule === undefined ? [] : [['DestinationRule', rule] as const]),
  ];
  const mesh = meshOf(resources.map(([kind, content]) => meshResource(kind, 'shop', 'entry', content)));
  const { units, failures } = generate(mesh, VIEW, { cds: 'all' });
  assert.deepEqual(failures, []);
  const clusters = [...(units.cds?.values() ?? [])].flat();
  return new Map(clusters.map(({ name, bytes }) => [name, envoy.config.cluster.v3.Cluster.decode(bytes)]));
}

function tlsOf(cluster: envoy.config.cluster.v3.Cluster | undefined) {
  const socket = cluster?.transportSocketMatches[0]?.transportSocket;
  return envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext.decode(
    socket?.typedConfig?.value ?? new Uint8Array(),
  );
}

const ENTRY = {
  ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
  resolution: 'STATIC',
  location: 'MESH_INTERNAL',
  endpoints: [{ address: '10.0.0.1' }],
};
const labels = { 'security.mesh.io/tlsMode': 'mesh' };

test('a host too long for a server name is called without one, because Envoy would refuse the cluster', () => {
  const host = `${Array.from({ length: 25 }, () => 'a'.repeat(9)).join('.')}.io`;
  assert.equal(host.length, 252);
  assert.equal(tlsOf(clustersOf({ ...ENTRY, hosts: [host] }).get(`outbound|80||${host}`)).sni, '');
  assert.equal(tlsOf(clustersOf({ ...ENTRY, hosts: ['b.io'] }).get('outbound|80||b.io')).sni, 'outbound_.80_._.b.io');
});

test('expected peers: known accounts, any of a namespace with an unknown one, the names of the service', () => {
  const endpoints = [
    { address: '10.0.0.1', labels, serviceAccount: 'vm' },
    { address: '10.0.0.2', labels },
    { address: '10.0.0.3', labels, serviceAccount: 'not/possible' },
  ];
  const subjectAltNames = ['spiffe://other/vm', 'vm.example.com'];
  const cluster = clustersOf({ ...ENTRY, hosts: ['vm.io'], endpoints, subjectAltNames }).get('outbound|80||vm.io');
  const names = tlsOf(cluster).commonTlsContext?.combinedValidationContext?.defaultValidationContext;
  assert.deepEqual(
    names?.matchTypedSubjectAltNames.map(({ sanType, matcher }) => [sanType, matcher?.exact ?? `${matcher?.prefix}*`]),
    [
      [3, 'spiffe://cluster.local/ns/shop/sa/*'],
      [3, 'spiffe://cluster.local/ns/shop/sa/vm'],
      [3, 'spiffe://other/vm'],
      [2, 'vm.example.com'],
    ],
  );
});

test('hosts outside the mesh are called in plain text, also at endpoints that announce mutual TLS', () => {
  const outside = { ...ENTRY, hosts: ['api.io'], location: 'MESH_EXTERNAL' };
  const matches = (spec: object) =>
    clustersOf(spec)
      .get('outbound|80||api.io')
      ?.transportSocketMatches.map(({ name }) => name);
  assert.deepEqual(matches({ ...outside, endpoints: [{ address: '192.0.2.1' }] }), []);
  assert.deepEqual(matches({ ...outside, endpoints: [{ address: '192.0.2.1', labels }] }), []);
  assert.deepEqual(matches({ ...ENTRY, hosts: ['api.io'] }), ['tlsMode-mesh']);
  const rule = { host: 'api.io', trafficPolicy: { tls: { mode: 'MESH_MUTUAL' } } };
  const asked = clustersOf({ ...outside, endpoints: [{ address: '192.0.2.1', labels }] }, rule);
  assert.equal(asked.get('outbound|80||api.io')?.transportSocket?.name, 'envoy.transport_sockets.tls');
});

test('an original destination is called by mutual TLS only if all endpoints accept it', () => {
  const original = { host: 'raw.io', trafficPolicy: { loadBalancer: { simple: 'PASSTHROUGH' } } };
  const called = (endpoints: readonly object[]) =>
    clustersOf({ ...ENTRY, hosts: ['raw.io'], endpoints }, original).get('outbound|80||raw.io');
  const [ready, plain] = [{ address: '10.0.0.1', labels }, { address: '10.0.0.2' }];
  assert.equal(called([ready])?.transportSocket?.name, 'envoy.transport_sockets.tls');
  assert.equal(called([ready, plain])?.transportSocket, null);
  assert.equal(called([plain])?.transportSocket, null);
});
