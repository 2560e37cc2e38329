/**
 * A mesh of several clusters: Services of one name are one service, and Pods and Nodes are looked up in the cluster of
 * the endpoint.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyResource } from '../resources/kinds/types.ts';
import type { MeshNetworks } from '../resources/mesh-config.ts';
import { fqdn, type MetaFields, meshOf, pod, resource, service, step } from './testing/build.ts';
import { applyChanges } from './testing/steps.ts';
import type { Snapshot } from './types/types.ts';

const WEB = `a/${fqdn('web.a')}`;
const NEAR: MetaFields = {};
const FAR: MetaFields = { cluster: 'far' };
const NETWORKS: MeshNetworks = { networks: { n2: { endpoints: [{ fromRegistry: 'far' }], gateways: [] } } };

function slice(name: string, backing: Readonly<Record<string, string>>, { cluster }: MetaFields): AnyResource {
  const endpoints = Object.entries(backing).map(([ip, of]) => ({
    addresses: [ip],
    targetRef: { kind: 'Pod', namespace: 'a', name: of },
  }));
  const content = { addressType: 'IPv4', endpoints, ports: [{ name: 'http', port: 8080 }] };
  const labels = { 'kubernetes.io/service-name': 'web' };
  return resource('EndpointSlice', `a/${name}`, content, { labels, ...(cluster !== undefined && { cluster }) });
}

function node(region: string, fields: MetaFields): AnyResource {
  return resource('Node', '/n', {}, { ...fields, labels: { 'topology.kubernetes.io/region': region } });
}

/** A pod on the node `n` of its cluster. */
function running(name: string, ip: string, serviceAccountName: string, fields: MetaFields): AnyResource {
  return pod(`a/${name}`, ip, fields, { nodeName: 'n', serviceAccountName });
}

const endpointsOf = (snapshot: Snapshot) =>
  snapshot.endpoints
    .get(WEB)
    ?.map(({ address, network, serviceAccount, locality }) => [address, network, serviceAccount, locality].join(' '));

const OPTIONS = { settings: { useEndpointSlice: true }, networks: NETWORKS };
/** Two clusters with the same names and the same addresses. */
const BOTH = [
  service('a/web', { clusterIP: '10.96.0.1' }, NEAR),
  service('a/web', { clusterIP: '10.96.0.9', ports: [{ name: 'http', port: 81 }] }, FAR),
  node('near', NEAR),
  node('far', FAR),
  running('web-0', '10.0.0.1', 'one', NEAR),
  running('web-0', '10.0.0.1', 'other', FAR),
  slice('web-x', { '10.0.0.1': 'web-0' }, NEAR),
  slice('web-x', { '10.0.0.1': 'web-0' }, FAR),
];

describe('a Service that two clusters have', () => {
  const snapshot = meshOf(BOTH, OPTIONS);

  test('is one service; the definition in the program’s own cluster decides', () => {
    assert.equal(snapshot.services.size, 1);
    const { addresses, ports, source } = snapshot.services.get(WEB) ?? {};
    assert.deepEqual([addresses, ports?.map(({ port }) => port), source], [['10.96.0.1'], [80], 'Service/a/web']);
    const { snapshot: without } = step(snapshot, [], ['Service/a/web']);
    const remaining = without.services.get(WEB);
    assert.deepEqual([remaining?.source, remaining?.ports[0]?.port], ['Service/a/web/far', 81]);
    const third = service('a/web', { ports: [{ name: 'http', port: 82 }] }, { cluster: 'another' });
    assert.equal(step(without, [third]).snapshot.services.get(WEB)?.source, 'Service/a/web/another');
    assert.equal(step(without, [], ['Service/a/web/far']).snapshot.services.size, 0);
  });

  test('has the endpoints of both clusters, each with the pod, node and network of its own cluster', () => {
    assert.deepEqual(endpointsOf(snapshot), ['10.0.0.1  one near//', '10.0.0.1 n2 other far//']);
    assert.deepEqual(snapshot.peers.get(WEB)?.accounts, ['a/one', 'a/other']);
    assert.equal(snapshot.findings().podsWithoutService, 0);
    const { snapshot: alone } = step(snapshot, [], ['EndpointSlice/a/web-x/far']);
    assert.deepEqual(endpointsOf(alone), ['10.0.0.1  one near//']);
    assert.equal(alone.findings().podsWithoutService, 1);
    const moved = step(snapshot, [node('elsewhere', FAR)]);
    assert.deepEqual(endpointsOf(moved.snapshot), ['10.0.0.1  one near//', '10.0.0.1 n2 other elsewhere//']);
    assert.deepEqual([...moved.changes.addresses], ['n2/10.0.0.1']);
  });

  test('waits for a pod of its own cluster', () => {
    const { snapshot: waiting } = step(snapshot, [], ['Pod/a/web-0/far']);
    assert.deepEqual(endpointsOf(waiting), ['10.0.0.1  one near//']);
    assert.equal(waiting.findings().endpointsPendingPod, 1);
  });

  test('has one instance in each network where its address is in use', () => {
    const accounts = (network: string) =>
      snapshot.instancesAt(network, '10.0.0.1').map(({ endpoint }) => endpoint.serviceAccount);
    assert.deepEqual([accounts(''), accounts('n2'), accounts('n3')], [['one'], ['other'], []]);
  });
});

test('an address without pod does not match a pod of another cluster with the same address', () => {
  const content = {
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.0.0.1'] }],
    ports: [{ name: 'http', port: 8080 }],
  };
  const bare = ({ cluster }: MetaFields) =>
    resource('EndpointSlice', 'a/bare', content, {
      labels: { 'kubernetes.io/service-name': 'web' },
      ...(cluster !== undefined && { cluster }),
    });
  const far = [service('a/web'), node('far', FAR), running('web-0', '10.0.0.1', 'other', FAR)];
  assert.deepEqual(endpointsOf(meshOf([...far, bare(NEAR)], OPTIONS)), ['10.0.0.1   ']);
  assert.deepEqual(endpointsOf(meshOf([...far, bare(FAR)], OPTIONS)), ['10.0.0.1 n2 other far//']);
});

test('Endpoints of several clusters are merged like EndpointSlices', () => {
  const of = (account: string, ip: string, fields: MetaFields) => {
    const subset = { addresses: [{ ip, nodeName: 'n' }], ports: [{ name: 'http', port: 8080 }] };
    return [
      resource('Endpoints', 'a/web', { subsets: [subset] }, fields),
      running(`pod-${account}`, ip, account, fields),
      node(account, fields),
    ];
  };
  const resources = [service('a/web'), ...of('one', '10.0.0.1', NEAR), ...of('other', '10.0.0.2', FAR)];
  const snapshot = meshOf(resources, { networks: NETWORKS });
  assert.deepEqual(endpointsOf(snapshot), ['10.0.0.1  one one//', '10.0.0.2 n2 other other//']);
});

test('a cluster IP of the program’s own cluster has precedence over the same one of another cluster', () => {
  const near = service('a/near', { clusterIP: '10.96.0.1' }, { created: 2000 });
  const snapshot = meshOf([near, service('a/web', { clusterIP: '10.96.0.1' }, { ...FAR, created: 1000 })]);
  const [first] = [...snapshot.services.values()].sort((a, b) => (a.created ?? 0) - (b.created ?? 0));
  assert.equal(first?.source, 'Service/a/near');
});

test('a Service that only another cluster has does not replace a service entry of the same host', () => {
  const entry = resource('ServiceEntry', 'a/own', {
    hosts: [fqdn('web.a')],
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    resolution: 'DNS',
    endpoints: [{ address: 'own.example.com' }],
  });
  const far = service('a/web', { type: 'ExternalName', externalName: 'elsewhere.example.com' }, FAR);
  const snapshot = meshOf([entry, far]);
  assert.equal(snapshot.services.get(WEB)?.source, 'ServiceEntry/a/own');
  const own = service('a/web', {}, NEAR);
  assert.equal(meshOf([entry, far, own]).services.get(WEB)?.source, 'Service/a/web');
});

describe('the network of a proxy', () => {
  const snapshot = meshOf(BOTH, OPTIONS);
  const rows: [what: string, said: string, label: string | undefined, network: string][] = [
    ['what it says', 'n2', undefined, 'n2'],
    ['what it says before its label', 'n2', 'n1', 'n2'],
    ['its label', '', 'n2', 'n2'],
    ['the one of the program’s cluster where it says none', '', undefined, ''],
    ['the one of the program’s cluster where the mesh has none of that name', 'strange', 'n7', ''],
  ];
  for (const [what, network, label, expected] of rows) {
    test(`is ${what}`, () => {
      const labels: Record<string, string> = label === undefined ? {} : { 'topology.mesh.io/network': label };
      assert.equal(snapshot.networkOfProxy({ network, labels }, '10.0.0.1'), expected);
    });
  }

  test('is the one of its cluster where it states none', () => {
    const of = (clusterId: string, network = '') =>
      snapshot.networkOfProxy({ network, labels: {}, clusterId }, '10.0.0.1');
    assert.deepEqual([of('far'), of('far', 'n7'), of('unknown'), of('')], ['n2', 'n2', '', '']);
    assert.deepEqual(
      ['far', 'near'].map((clusterId) => {
        const network = snapshot.networkOfProxy({ network: '', labels: {}, clusterId }, '10.0.0.1');
        return snapshot.instancesAt(network, '10.0.0.1').map(({ endpoint }) => endpoint.serviceAccount);
      }),
      [['other'], ['one']],
    );
  });

  test('may be a network that only endpoints name, while they exist', () => {
    const proxy = { network: 'n7', labels: {} };
    const labels = { 'topology.mesh.io/network': 'n7' };
    const labelled = step(snapshot, [pod('a/web-0', '10.0.0.1', { labels })]);
    assert.equal(labelled.snapshot.networkOfProxy(proxy, '10.0.0.1'), 'n7');
    assert.notEqual(labelled.snapshot.networkNames, snapshot.networkNames);
    const back = step(labelled.snapshot, [running('web-0', '10.0.0.1', 'one', NEAR)]).snapshot;
    assert.equal(back.networkOfProxy(proxy, '10.0.0.1'), '');
    const more = step(labelled.snapshot, [slice('web-y', { '10.0.0.2': 'web-0' }, NEAR)]).snapshot;
    assert.equal(more.networkNames, labelled.snapshot.networkNames);
  });

  test('has the endpoints of both clusters at one address, each with its cluster', () => {
    const mesh = meshOf(BOTH, { ...OPTIONS, networks: { networks: {} } });
    const clusters = (snapshot: Snapshot) => snapshot.endpoints.get(WEB)?.map(({ cluster }) => cluster);
    assert.deepEqual(clusters(mesh), [undefined, 'far']);
    assert.deepEqual([...mesh.endpointClusters], ['far']);
    const without = applyChanges(mesh, {
      changes: [{ key: 'EndpointSlice/a/web-x/far', before: undefined, after: undefined }],
    }).snapshot;
    assert.deepEqual(clusters(without), [undefined]);
    assert.deepEqual([...without.endpointClusters], []);
  });

  test('follows from the configured address ranges', () => {
    const ranges: MeshNetworks = { networks: { n9: { endpoints: [{ fromCidr: '10.0.0.0/8' }], gateways: [] } } };
    const mesh = meshOf(BOTH, { ...OPTIONS, networks: ranges });
    assert.equal(mesh.networkOfProxy({ network: '', labels: {} }, '10.0.0.1'), 'n9');
    assert.equal(mesh.instancesAt('n9', '10.0.0.1').length, 1, 'both clusters are on one network: one has the address');
  });

  test('decides whether a pod is served, even when the ranges change', () => {
    const ranges: MeshNetworks = { networks: { n9: { endpoints: [{ fromCidr: '10.0.0.0/8' }], gateways: [] } } };
    const labels = { 'topology.mesh.io/network': 'n9' };
    const resources = [
      service('a/web'),
      pod('a/web-0', '10.0.0.1', { labels }),
      pod('a/idle', '10.0.0.1'),
      slice('web-x', { '10.0.0.1': 'web-0' }, NEAR),
    ];
    const inRange = meshOf(resources, { ...OPTIONS, networks: ranges });
    assert.equal(inRange.findings().podsWithoutService, 0);
    const { snapshot: without } = applyChanges(inRange, { changes: [], networks: NETWORKS });
    assert.equal(without.findings().podsWithoutService, 1);
    assert.equal(applyChanges(without, { changes: [], networks: ranges }).snapshot.findings().podsWithoutService, 0);
  });
});
