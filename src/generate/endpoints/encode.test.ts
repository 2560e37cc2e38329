import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { Endpoint, Health, NetworkGateway } from '../../model/types/types.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { assignEndpoints } from './assign.ts';
import { encodeEndpoints } from './encode.ts';
import { assignmentMessage } from './message.ts';
import type { EndpointsInput } from './resolve.ts';

const { ClusterLoadAssignment } = envoy.config.endpoint.v3;

function endpoint(address: string, more: Partial<Endpoint> = {}): Endpoint {
  return {
    address,
    port: 8080,
    servicePort: 'http',
    labels: {},
    locality: '',
    network: '',
    weight: undefined,
    serviceAccount: '',
    health: 'healthy',
    workload: undefined,
    hostname: '',
    tlsReady: false,
    ...more,
  };
}

function input(endpoints: readonly Endpoint[], more: Partial<EndpointsInput> = {}): EndpointsInput {
  return {
    name: 'outbound|80||web.default.svc.cluster.local',
    service: 'default/web.default.svc.cluster.local',
    key: '',
    endpoints,
    portName: 'http',
    labels: {},
    resolvesNames: false,
    network: '',
    gateways: new Map(),
    passedOn: false,
    isGrpc: false,
    locality: undefined,
    ...more,
  };
}

/** `priority:locality=weight[address@weight …]` for each locality, which reads better than the message. */
function summary(value: EndpointsInput): string[] {
  return assignEndpoints(value).localities.map(
    ({ priority, locality, weight, endpoints }) =>
      `${priority}:${locality}=${weight}[${endpoints.map((e) => `${e.address}@${e.weight}`).join(' ')}]`,
  );
}

const anEndpoint = fc
  .record({
    address: fc.oneof(fc.ipV4(), fc.ipV6(), fc.constantFrom('/run/app.sock', '@app', '/run/ünïx.sock')),
    port: fc.integer({ min: 0, max: 65535 }),
    locality: fc.constantFrom('', 'eu', 'eu/a', 'eu/a/1', 'us/b/2', 'eu//x', 'süd/1/2'),
    weight: fc.option(fc.integer({ min: 0, max: 0xffffffff }), { nil: undefined }),
    health: fc.constantFrom<Health>('healthy', 'unhealthy', 'draining'),
    network: fc.constantFrom('', 'n1', 'n2'),
    tlsReady: fc.boolean(),
  })
  .map(({ address, ...more }) => endpoint(address, more));

test('the hand-written bytes equal those of the compiled messages, for any endpoints', () => {
  const gateways = new Map<string, NetworkGateway[]>([
    ['n1', [{ address: '192.0.2.1', port: 15443 }]],
    [
      'n2',
      [
        { address: '192.0.2.2', port: 15443 },
        { address: '2001:db8::2', port: 15443 },
      ],
    ],
  ]);
  fc.assert(
    fc.property(
      fc.array(anEndpoint, { maxLength: 40 }),
      fc.boolean(),
      fc.boolean(),
      (endpoints, networks, localities) => {
        const value = input(endpoints, {
          ...(networks && { gateways, network: 'n1' }),
          ...(localities && {
            locality: { from: 'eu/a/1', distribute: undefined, failover: undefined, failoverEnabled: true },
          }),
        });
        const expected = encode(ClusterLoadAssignment, assignmentMessage(assignEndpoints(value)));
        const decoded = ClusterLoadAssignment.decode(encodeEndpoints(value));
        assert.deepEqual(decoded, ClusterLoadAssignment.decode(expected));
      },
    ),
  );
});

test('text that is not ASCII fits where the buffer is full', () => {
  for (let length = 200; length < 300; length++) {
    const value = input([], { name: `${'a'.repeat(length)}ü` });
    assert.equal(ClusterLoadAssignment.decode(encodeEndpoints(value)).clusterName, value.name);
  }
});

test('every assignment is valid for Envoy: weights from 1, sums within 32 bits, contiguous priorities', () => {
  fc.assert(
    fc.property(fc.array(anEndpoint, { maxLength: 20 }), (endpoints) => {
      const locality = { from: 'eu/a/1', distribute: undefined, failover: undefined, failoverEnabled: true };
      const { localities } = assignEndpoints(input(endpoints, { locality }));
      const priorities = new Set(localities.map(({ priority }) => priority));
      assert.deepEqual(
        [...priorities],
        [...priorities.keys()].map((_, index) => index),
      );
      assert.ok(localities.reduce((sum, { weight }) => sum + weight, 0) <= 0xffffffff);
      for (const { weight, endpoints: members } of localities) {
        assert.ok(weight >= 1 && members.length > 0);
        for (const member of members) assert.ok(Number.isInteger(member.weight) && member.weight >= 1);
      }
    }),
  );
});

test('endpoints are those of the port and of the subset, in the order of the service', () => {
  const endpoints = [
    endpoint('10.0.0.3', { labels: { version: 'v1', app: 'web' } }),
    endpoint('10.0.0.1', { labels: { version: 'v2' } }),
    endpoint('10.0.0.2', { labels: { version: 'v1' } }),
    endpoint('10.0.0.4', { labels: { version: 'v1' }, servicePort: 'grpc' }),
  ];
  assert.deepEqual(summary(input(endpoints, { labels: { version: 'v1' } })), ['0:=2[10.0.0.3@1 10.0.0.2@1]']);
});

test('a host name among addresses is left out of EDS, and kept where Envoy resolves names', () => {
  const endpoints = [endpoint('10.0.0.1'), endpoint('db.example.com')];
  assert.deepEqual(summary(input(endpoints)), ['0:=1[10.0.0.1@1]']);
  assert.deepEqual(summary(input(endpoints, { resolvesNames: true })), ['0:=2[10.0.0.1@1 db.example.com@1]']);
});

test('other networks are reached through their gateways, with the weight of the endpoints there', () => {
  const endpoints = [
    endpoint('10.0.0.1', { network: 'here' }),
    endpoint('10.9.0.1', { network: 'there' }),
    endpoint('10.9.0.2', { network: 'there', weight: 2 }),
    endpoint('10.9.0.3', { network: 'there', health: 'unhealthy' }),
    endpoint('10.8.0.1', { network: 'unknown' }),
  ];
  const there = [
    { address: '192.0.2.1', port: 15443 },
    { address: '192.0.2.2', port: 15443 },
  ];
  assert.deepEqual(summary(input(endpoints, { network: 'here', gateways: new Map([['there', there]]) })), [
    '0:=10[10.0.0.1@2 10.8.0.1@2 192.0.2.1@3 192.0.2.2@3]',
  ]);
});

test('a gateway of another network gets mutual TLS, with the weight of the endpoints that accept it', () => {
  const gateways = new Map([['there', [{ address: '192.0.2.1', port: 15443 }]]]);
  const plain = endpoint('10.9.0.1', { network: 'there' });
  const ready = endpoint('10.9.0.2', { network: 'there', tlsReady: true, weight: 2 });
  const through = (...endpoints: Endpoint[]) =>
    assignEndpoints(input(endpoints, { network: 'here', gateways })).localities.flatMap((locality) =>
      locality.endpoints.map(({ weight, tlsReady }) => [weight, tlsReady]),
    );
  assert.deepEqual(through(plain, ready, plain), [[2, true]]);
  assert.deepEqual(through(ready, plain, ready), [[4, true]]);
  assert.deepEqual(through(plain, plain), [[2, false]]);
});

test('passed-through TLS goes to endpoints of the same network that accept mutual TLS, and to no other gateway', () => {
  const gateways = new Map([['there', [{ address: '192.0.2.1', port: 15443 }]]]);
  const endpoints = [
    endpoint('10.0.0.1', { network: 'here', tlsReady: true }),
    endpoint('10.0.0.2', { network: 'here' }),
    endpoint('10.9.0.1', { network: 'there', tlsReady: true }),
    endpoint('10.8.0.1', { network: 'unknown', tlsReady: true }),
  ];
  assert.deepEqual(summary(input(endpoints, { network: 'here', gateways, passedOn: true })), [
    '0:=2[10.0.0.1@1 10.8.0.1@1]',
  ]);
});

test('gRPC applications get each address of their network once, and no gateways or Unix sockets', () => {
  const gateways = new Map([['there', [{ address: '192.0.2.1', port: 15443 }]]]);
  const endpoints = [
    endpoint('10.0.0.1', { network: 'here', locality: 'eu' }),
    endpoint('10.0.0.1', { network: 'here', locality: 'us' }),
    endpoint('10.0.0.1', { network: 'here', locality: 'us', port: 81 }),
    endpoint('10.9.0.1', { network: 'there', locality: 'eu' }),
    endpoint('10.9.0.2', { network: 'there', locality: 'us' }),
    endpoint('/run/app.sock', { network: 'here', locality: 'eu' }),
  ];
  assert.deepEqual(summary(input(endpoints, { network: 'here', gateways, isGrpc: true })), [
    '0:eu=1[10.0.0.1@1]',
    '0:us=1[10.0.0.1@1]',
  ]);
});

const spread = [
  endpoint('10.0.0.1', { locality: 'eu/a/1' }),
  endpoint('10.0.0.2', { locality: 'eu/a/2' }),
  endpoint('10.0.0.3', { locality: 'eu/b/1' }),
  endpoint('10.0.0.4', { locality: 'us/a/1' }),
  endpoint('10.0.0.5', { locality: 'asia/a/1', weight: 3 }),
];

test('with outlier detection the nearest locality comes first, and other regions after the failover region', () => {
  const locality = {
    from: 'eu/a/1',
    distribute: undefined,
    failover: [{ from: 'eu', to: 'asia' }],
    failoverEnabled: true,
  };
  assert.deepEqual(summary(input(spread, { locality })), [
    '0:eu/a/1=1[10.0.0.1@1]',
    '1:eu/a/2=1[10.0.0.2@1]',
    '2:eu/b/1=1[10.0.0.3@1]',
    '3:asia/a/1=3[10.0.0.5@3]',
    '4:us/a/1=1[10.0.0.4@1]',
  ]);
});

test('a proxy of a locality without endpoints begins at the nearest that has some', () => {
  const locality = { from: 'us/z/9', distribute: undefined, failover: undefined, failoverEnabled: true };
  assert.deepEqual(
    assignEndpoints(input(spread, { locality })).localities.map(
      ({ priority, locality: name }) => `${priority}:${name}`,
    ),
    ['0:us/a/1', '1:asia/a/1', '1:eu/a/1', '1:eu/a/2', '1:eu/b/1'],
  );
});

test('distribution weighs localities by percentage, the more exact pattern first, and leaves the others out', () => {
  const locality = {
    from: 'eu/a/1',
    distribute: [{ from: 'eu/a/*', to: { 'eu/a/1': 70, 'eu/*': 20, 'us/*': 10 } }],
    failover: undefined,
    failoverEnabled: true,
  };
  assert.deepEqual(summary(input(spread, { locality })), [
    '0:eu/a/1=7000[10.0.0.1@1]',
    '0:eu/a/2=1000[10.0.0.2@1]',
    '0:eu/b/1=1000[10.0.0.3@1]',
    '0:us/a/1=1000[10.0.0.4@1]',
  ]);
});

test('endpoints without a locality have an empty one, because Envoy ignores the weight of an absent locality', () => {
  const { endpoints } = ClusterLoadAssignment.decode(encodeEndpoints(input([endpoint('10.0.0.1')])));
  assert.deepEqual(
    endpoints.map(({ locality, loadBalancingWeight }) => [locality?.region, loadBalancingWeight?.value]),
    [['', 1]],
  );
});
