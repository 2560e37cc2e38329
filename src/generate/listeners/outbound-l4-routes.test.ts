import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainsOf, oneService, outboundOf, worldOf } from '../testing/listeners.ts';
import { virtualServiceOf } from '../testing/routes.ts';
import { outboundView } from '../testing/views.ts';

test('TLS that shares a listener is matched by host name; TLS with an address of its own is not', () => {
  const services = [
    oneService('a', 'TLS', 443),
    oneService('b', 'HTTPS', 443, [], { hostname: '*.example.com', key: 'default/*.example.com' }),
    oneService('c', 'TLS', 443, ['10.96.0.1']),
  ];
  assert.deepEqual(chainsOf({ services }, '0.0.0.0_443').toSorted(), [
    'else PassthroughCluster',
    'outbound|443||*.example.com if *.example.com',
    'outbound|443||a.default.svc.cluster.local if a.default.svc.cluster.local',
  ]);
  assert.deepEqual(chainsOf({ services }, '10.96.0.1_443'), ['outbound|443||c.default.svc.cluster.local']);
});

const DB = 'db.default.svc.cluster.local';

function tcpRoutes(tcp: readonly unknown[], view = outboundView()): string[] {
  const services = [oneService('db', 'TCP', 5432, ['10.96.0.1'])];
  return chainsOf({ services, virtualServices: [virtualServiceOf({ hosts: [DB], tcp })] }, '10.96.0.1_5432', view);
}

const toSubset = (subset: string, weight?: number) => ({ destination: { host: DB, subset }, weight });

test('TCP routes go by subnet, then to the service', () => {
  const match = [{ destinationSubnets: ['10.96.0.0/24'] }, { destinationSubnets: ['10.97.0.1'] }];
  assert.deepEqual(tcpRoutes([{ match, route: [toSubset('v1')] }]), [
    `outbound|5432|v1|${DB} if 10.96.0.0/24 10.97.0.1/32`,
    `outbound|5432||${DB}`,
  ]);
});

test('a range of a route applies also beside HTTP, if only connections to one address reach the listener', () => {
  const services = [oneService('db', 'TCP', 80, ['10.96.0.1']), oneService('web', 'HTTP', 80, ['10.96.0.2'])];
  const tcp = [{ match: [{ destinationSubnets: ['10.96.0.0/24'] }], route: [toSubset('v1')] }];
  const virtualServices = [virtualServiceOf({ hosts: [DB], tcp })];
  assert.deepEqual(chainsOf({ services, virtualServices }, '10.96.0.1_80'), [
    `outbound|80|v1|${DB} if 10.96.0.0/24`,
    `outbound|80||${DB}`,
  ]);
});

test('a TCP route that matches everything ends the list, which is not a conflict', () => {
  const routes = [{ route: [toSubset('v1', 80), toSubset('v2', 20), toSubset('v3', 0)] }, { route: [toSubset('v4')] }];
  assert.deepEqual(tcpRoutes(routes), [`outbound|5432|v1|${DB} 80, outbound|5432|v2|${DB} 20`]);
  const services = [oneService('db', 'TCP', 5432, ['10.96.0.1'])];
  const virtualServices = [virtualServiceOf({ hosts: [DB], tcp: routes })];
  assert.deepEqual(outboundOf(worldOf({ services, virtualServices })).findings, []);
});

const clauses: readonly (readonly [what: string, clause: object, matches: boolean])[] = [
  ['its port', { port: 5432 }, true],
  ['another port', { port: 5433 }, false],
  ['labels it has', { sourceLabels: { app: 'web' } }, true],
  ['labels it has not', { sourceLabels: { app: 'api' } }, false],
  ['its namespace', { sourceNamespace: 'default' }, true],
  ['another namespace', { sourceNamespace: 'other' }, false],
  ['the mesh', { gateways: ['default/edge', 'mesh'] }, true],
  ['gateways alone', { gateways: ['default/edge'] }, false],
];

for (const [what, clause, matches] of clauses) {
  test(`a TCP route for ${what} is ${matches ? '' : 'not '}for the proxy`, () => {
    const view = outboundView({ sourceLabels: { app: 'web' } });
    const chains = tcpRoutes([{ match: [clause], route: [toSubset('v1')] }], view);
    assert.deepEqual(chains, [`outbound|5432|${matches ? 'v1' : ''}|${DB}`]);
  });
}

test('TLS routes go by server name; names that Envoy refuses match nothing', () => {
  const services = [oneService('db', 'TLS', 5432, ['10.96.0.1'])];
  const tls = [
    { match: [{ sniHosts: ['A.example.com.', 'a.example.com'] }], route: [toSubset('v1')] },
    { match: [{ sniHosts: ['w*.example.com'] }], route: [toSubset('v2')] },
    { match: [{ sniHosts: ['*'] }], route: [toSubset('v3')] },
  ];
  const virtualServices = [virtualServiceOf({ hosts: [DB], tls })];
  assert.deepEqual(chainsOf({ services, virtualServices }, '10.96.0.1_5432'), [
    `outbound|5432|v1|${DB} if a.example.com`,
    `outbound|5432|v3|${DB}`,
  ]);
});
