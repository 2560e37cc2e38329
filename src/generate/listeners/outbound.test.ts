import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { Protocol, Service } from '../../model/types/types.ts';
import { google } from '../../protobuf/index.ts';
import { plannedRoutes } from '../listener-plans/index.ts';
import { MeshReader } from '../reads/index.ts';
import { chainsOf, chainTexts, oneService, outboundOf, type World, worldOf } from '../testing/listeners.ts';
import { outboundView } from '../testing/views.ts';
import { outboundListeners, outboundListenerUnits } from './outbound.ts';

const AUTO = 'Unsupported';
const OFF = { sniffOutbound: false };

test('another HTTP service on a port leaves the bytes of its listener as they are', () => {
  const web = oneService('web', 'HTTP', 80, ['10.96.0.1']);
  const api = oneService('api', 'GRPC', 80, ['10.96.0.2'], { created: 1 });
  const alone = outboundOf(worldOf({ services: [web] })).resources.get('0.0.0.0_80');
  const together = outboundOf(worldOf({ services: [api, web] })).resources.get('0.0.0.0_80');
  assert.deepEqual(alone?.refs, ['80']);
  assert.deepEqual(together, alone);
});

test('a gRPC-Web service on the port brings its filter', () => {
  const services = [oneService('web', 'HTTP', 80), oneService('api', 'GRPC-Web', 80)];
  const without = outboundOf(worldOf({ services: services.slice(0, 1) })).resources.get('0.0.0.0_80');
  const withIt = outboundOf(worldOf({ services })).resources.get('0.0.0.0_80');
  assert.notDeepEqual(withIt?.bytes, without?.bytes);
});

test('at a port of HTTP services other traffic is unknown traffic, however late a client sends first', () => {
  const services = [oneService('web', 'HTTP', 80), oneService('api', 'GRPC', 80)];
  const listener = outboundOf(worldOf({ services })).listeners.get('0.0.0.0_80');
  assert.deepEqual(chainTexts(listener), ['routes 80 if is HTTP', 'else PassthroughCluster']);
  assert.deepEqual(
    listener?.listenerFilters.map(({ name }) => name),
    ['envoy.filters.listener.tls_inspector', 'envoy.filters.listener.http_inspector'],
  );
  assert.deepEqual(listener?.listenerFiltersTimeout, google.protobuf.Duration.decode(new Uint8Array()));
  const closed = { services, outboundTrafficPolicy: 'REGISTRY_ONLY' } as const;
  assert.deepEqual(chainsOf(closed, '0.0.0.0_80'), ['routes 80 if is HTTP', 'else BlackHoleCluster']);
  assert.deepEqual(chainsOf({ services, settings: OFF }, '0.0.0.0_80'), ['routes 80']);
  const without = outboundView({ capabilities: { extensions: [], sds: false } });
  assert.deepEqual(chainsOf({ services }, '0.0.0.0_80', without), ['routes 80']);
  // A bound socket is the connection's destination.
  assert.deepEqual(chainsOf({ services }, '127.0.0.1_80', outboundView({ interception: 'NONE' })), ['routes 80']);
});

test('TCP services have a listener for each address; UDP ports have none', () => {
  const services = [
    oneService('db', 'TCP', 5432, ['10.96.0.1', '10.96.0.2/32']),
    oneService('dns', 'UDP', 53, ['10.96.0.3']),
  ];
  const { listeners } = outboundOf(worldOf({ services }));
  assert.deepEqual([...listeners.keys()], ['10.96.0.1_5432', '10.96.0.2_5432', 'virtualOutbound']);
  const cluster = 'outbound|5432||db.default.svc.cluster.local';
  assert.deepEqual(chainTexts(listeners.get('10.96.0.2_5432')), [cluster]);
  assert.equal(listeners.get('10.96.0.2_5432')?.bindToPort?.value, false);
});

test('address ranges share the wildcard listener, and the rest is unknown traffic', () => {
  const services = [oneService('a', 'TCP', 80, ['10.0.0.0/8']), oneService('b', 'TCP', 80, ['11.0.0.0/8'])];
  const world = { services, outboundTrafficPolicy: 'REGISTRY_ONLY' } as const;
  assert.deepEqual(chainsOf(world, '0.0.0.0_80'), [
    'outbound|80||a.default.svc.cluster.local if 10.0.0.0/8',
    'outbound|80||b.default.svc.cluster.local if 11.0.0.0/8',
    'else BlackHoleCluster',
  ]);
});

test('a range gives way to HTTP of a Service in it, and not to a ServiceEntry', () => {
  const range = oneService('range', 'TCP', 80, ['10.0.0.0/8'], { registry: 'External' });
  const web = oneService('web', 'HTTP', 80, ['10.0.0.1']);
  const chainsBeside = (other: Service) => chainsOf({ services: [range, other] }, '0.0.0.0_80');
  const own = 'outbound|80||range.default.svc.cluster.local if 10.0.0.0/8';
  assert.deepEqual(chainsBeside(web).includes(own), false);
  assert.deepEqual(chainsBeside({ ...web, registry: 'External' }).includes(own), true);
});

test('pods of a headless TCP service have listeners of their own, whatever their number', () => {
  const nodes = oneService('nodes', 'TCP', 7000, [], { headless: true, resolution: 'passthrough' });
  const world = { services: [nodes], endpoints: [[nodes, ['10.0.0.2', '10.0.0.1', '/run/sock']]] } as const;
  const names = (changes: World) => [...outboundOf(worldOf({ ...world, ...changes })).listeners.keys()];
  assert.deepEqual(names({}), ['10.0.0.1_7000', '10.0.0.2_7000', 'virtualOutbound']);
  assert.deepEqual(names({ endpoints: [] }), ['virtualOutbound']);
  assert.deepEqual(names({ settings: { headlessPodListeners: false } }), ['0.0.0.0_7000', 'virtualOutbound']);
  assert.deepEqual(names({ settings: { edsForHeadless: true } }), ['0.0.0.0_7000', 'virtualOutbound']);
});

test('two services of one address and port: the older has it, and the other is counted', () => {
  const old = oneService('z', 'TCP', 80, ['10.96.0.1'], { created: 1 });
  const young = oneService('a', 'TCP', 80, ['10.96.0.1'], { created: 2 });
  const { listeners, findings } = outboundOf(worldOf({ services: [young, old] }));
  assert.deepEqual(chainTexts(listeners.get('10.96.0.1_80')), ['outbound|80||z.default.svc.cluster.local']);
  assert.deepEqual(
    findings.map(({ metric, unit }) => [metric, unit]),
    [['ctl_conflict_outbound_listener_tcp_over_current_tcp', '80']],
  );
});

test('an undeclared port with HTTP traffic uses its own routes at its own address, else those of the port', () => {
  const services = [oneService('a', AUTO, 80, ['10.96.0.1']), oneService('b', AUTO, 81)];
  const a = outboundOf(worldOf({ services })).listeners.get('10.96.0.1_80');
  const host = 'a.default.svc.cluster.local';
  assert.deepEqual(chainTexts(a), [
    `outbound|80||${host} if is plain`,
    `outbound|80||${host}`,
    `routes ${host}:80 if is HTTP`,
  ]);
  assert.equal(a?.continueOnListenerFiltersTimeout, true);
  assert.deepEqual(
    a?.listenerFilters.map(({ name }) => name),
    ['envoy.filters.listener.tls_inspector', 'envoy.filters.listener.http_inspector'],
  );
  assert.deepEqual(chainsOf({ services }, '0.0.0.0_81'), [
    'outbound|81||b.default.svc.cluster.local if is plain',
    'outbound|81||b.default.svc.cluster.local',
    'routes 81 if is HTTP',
  ]);
  assert.deepEqual(chainsOf({ services, settings: OFF }, '10.96.0.1_80'), [`outbound|80||${host}`]);
});

test('routes of a service do not depend on which service has its address', () => {
  const services = [oneService('a', AUTO, 80, ['10.96.0.1'], { created: 2 })];
  const older = oneService('b', AUTO, 80, ['10.96.0.1'], { created: 1 });
  const routes = (list: readonly Service[]) => [
    ...Array.from(plannedRoutes(MeshReader.of(worldOf({ services: list })), outboundView()), ({ name }) => name),
  ];
  assert.deepEqual(routes(services), ['a.default.svc.cluster.local:80']);
  assert.ok(routes([...services, older]).includes('a.default.svc.cluster.local:80'));
  const { resources } = outboundOf(worldOf({ services: [...services, older] }));
  assert.deepEqual(resources.get('10.96.0.1_80')?.refs, ['b.default.svc.cluster.local:80']);
});

test('an Envoy without the inspectors has no protocol detection', () => {
  const services = [oneService('a', AUTO, 80, ['10.96.0.1'])];
  const view = outboundView({ capabilities: { extensions: ['envoy.filters.listener.tls_inspector'], sds: false } });
  assert.deepEqual(chainsOf({ services }, '10.96.0.1_80', view), ['outbound|80||a.default.svc.cluster.local']);
});

test('HTTP of a range with protocol detection has a chain of its own', () => {
  const services = [oneService('a', AUTO, 80, ['10.0.0.0/8'])];
  assert.deepEqual(chainsOf({ services }, '0.0.0.0_80'), [
    'outbound|80||a.default.svc.cluster.local if 10.0.0.0/8 is plain',
    'outbound|80||a.default.svc.cluster.local if 10.0.0.0/8',
    'routes 80 if is HTTP',
    'routes 80 if 10.0.0.0/8 is HTTP',
    'else PassthroughCluster',
  ]);
});

const httpAndTcp: readonly (readonly [
  older: Protocol,
  younger: Protocol,
  on: string[],
  off: string[],
  metric: string,
])[] = [
  [
    'HTTP',
    'TCP',
    [
      'outbound|80||young.default.svc.cluster.local if is plain',
      'outbound|80||young.default.svc.cluster.local',
      'routes 80 if is HTTP',
    ],
    ['routes 80'],
    'ctl_conflict_outbound_listener_tcp_over_current_http',
  ],
  [
    'TCP',
    'HTTP',
    [
      'outbound|80||old.default.svc.cluster.local if is plain',
      'outbound|80||old.default.svc.cluster.local',
      'routes 80 if is HTTP',
    ],
    ['outbound|80||old.default.svc.cluster.local'],
    'ctl_conflict_outbound_listener_http_over_current_tcp',
  ],
];

for (const [older, younger, on, off, metric] of httpAndTcp) {
  test(`${younger} joins older ${older} on a port: both with protocol detection, else the older alone`, () => {
    const services = [
      oneService('old', older, 80, [], { created: 1 }),
      oneService('young', younger, 80, [], { created: 2 }),
    ];
    assert.deepEqual(chainsOf({ services }, '0.0.0.0_80'), on);
    assert.deepEqual(outboundOf(worldOf({ services })).findings, []);
    assert.deepEqual(chainsOf({ services, settings: OFF }, '0.0.0.0_80'), off);
    const { findings } = outboundOf(worldOf({ services, settings: OFF }));
    assert.deepEqual(
      findings.map((finding) => finding.metric),
      [metric],
    );
  });
}

test('without redirection everything is bound on the loopback address, and there is no unknown traffic', () => {
  const services = [oneService('web', 'HTTP', 80), oneService('db', 'TLS', 5432, ['10.96.0.1'])];
  const none = outboundOf(worldOf({ services }), outboundView({ interception: 'NONE', families: 'ipv6' }));
  assert.deepEqual([...none.listeners.keys()], ['::1_80', '::1_5432']);
  assert.deepEqual(chainTexts(none.listeners.get('::1_5432')), [
    'outbound|5432||db.default.svc.cluster.local if db.default.svc.cluster.local',
  ]);
  assert.equal(none.listeners.get('::1_80')?.bindToPort, null);
});

test('the virtual listener takes redirected connections, except those to its own port', () => {
  const listener = outboundOf(worldOf({ mesh: { proxyListenPort: 16001 } })).listeners.get('virtualOutbound');
  assert.equal(listener?.address?.socketAddress?.portValue, 16001);
  assert.equal(listener?.useOriginalDst?.value, true);
  assert.equal(listener?.transparent, null);
  assert.deepEqual(chainTexts(listener), ['BlackHoleCluster if port 16001', 'PassthroughCluster']);
});

test('TPROXY makes the virtual listener transparent, IPv6 moves the wildcard', () => {
  const view = outboundView({ interception: 'TPROXY', families: 'ipv6' });
  const { listeners } = outboundOf(worldOf({ services: [oneService('web', 'HTTP', 80)] }), view);
  assert.equal(listeners.get('virtualOutbound')?.transparent?.value, true);
  assert.equal(listeners.get('virtualOutbound')?.address?.socketAddress?.address, '::');
  assert.ok(listeners.has('::_80'));
});

test("a service on the proxy's own port gets no listener that would conflict with it", () => {
  const { listeners, findings } = outboundOf(worldOf({ services: [oneService('odd', 'HTTP', 15001)] }));
  assert.deepEqual([...listeners.keys()], ['virtualOutbound']);
  assert.deepEqual(
    findings.map(({ metric }) => metric),
    ['ctl_invalid_out_listeners'],
  );
});

test('deleted units have no resources', () => {
  const snapshot = worldOf({ services: [oneService('web', 'HTTP', 80)] });
  assert.deepEqual(outboundListeners(MeshReader.of(snapshot), outboundView(), '81'), { resources: [], findings: [] });
  const none = outboundView({ interception: 'NONE' });
  assert.deepEqual(outboundListeners(MeshReader.of(snapshot), none, 'virtual'), { resources: [], findings: [] });
  const gone = outboundView({ scope: 'gone/' });
  assert.deepEqual(outboundListenerUnits(MeshReader.of(snapshot), gone), []);
  assert.deepEqual(outboundListeners(MeshReader.of(snapshot), gone, '80').resources, []);
});

const anyService = fc.record({
  name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
  protocol: fc.constantFrom<Protocol>('HTTP', 'GRPC-Web', 'TCP', 'TLS', 'Unsupported', 'UDP'),
  port: fc.constantFrom(80, 443, 15001),
  addresses: fc.subarray(['10.96.0.1', '10.96.0.2', '10.0.0.0/8', '::/0']),
  headless: fc.boolean(),
  created: fc.option(fc.nat(3), { nil: undefined }),
});

test('any mesh: requested routes are planned, names are unique, the order of arrival makes no difference', () => {
  const services = fc.uniqueArray(anyService, { selector: ({ name }) => name });
  const interception = fc.constantFrom('REDIRECT', 'NONE' as const);
  fc.assert(
    fc.property(services, fc.boolean(), interception, (list, sniffOutbound, mode) => {
      const services = list.map(({ name, protocol, port, addresses, headless, created }) =>
        oneService(name, protocol, port, headless ? [] : addresses, {
          headless,
          created,
          resolution: headless ? 'passthrough' : 'eds',
        }),
      );
      const world = {
        settings: { sniffOutbound },
        endpoints: services.map((service) => [service, ['10.0.0.1']] as const),
      };
      const view = outboundView({ interception: mode === 'NONE' ? 'NONE' : 'REDIRECT' });
      const snapshot = worldOf({ ...world, services });
      const outputs = outboundListenerUnits(MeshReader.of(snapshot), view).map((unit) =>
        outboundListeners(MeshReader.of(snapshot), view, unit),
      );
      const resources = outputs.flatMap((output) => output.resources);
      const names = resources.map(({ name }) => name);
      assert.equal(new Set(names).size, names.length);
      const routes = new Map(
        Array.from(plannedRoutes(MeshReader.of(snapshot), view), (plan) => [plan.name, plan] as const),
      );
      const refs = new Set(resources.flatMap((resource) => resource.refs));
      assert.deepEqual(
        [...refs].filter((ref) => !routes.has(ref)),
        [],
      );
      // Others are only those of services whose address belongs to an older one.
      const unasked = [...routes].filter(([name]) => !refs.has(name));
      assert.ok(unasked.every(([, { host }]) => host !== undefined));
      const reversed = worldOf({ ...world, services: services.toReversed() });
      assert.deepEqual([...outboundOf(reversed, view).resources.values()], resources);
    }),
  );
});

describe('names that match a wildcard and that the proxy resolves', () => {
  const dynamic = (protocol: Service['ports'][number]['protocol']) =>
    oneService('wild', protocol, 9000, [], { registry: 'External', resolution: 'dynamic' });

  test('plain TCP names no host: the port has no listener', () => {
    assert.equal(outboundOf(worldOf({ services: [dynamic('TCP')] })).listeners.size, 1);
  });

  test('where the protocol is detected, only HTTP is for them', () => {
    const services = [dynamic(AUTO)];
    const { listeners } = outboundOf(worldOf({ services, outboundTrafficPolicy: 'REGISTRY_ONLY' }));
    const listener = listeners.get('0.0.0.0_9000');
    assert.equal(listener?.filterChains?.length, 1);
    assert.equal(listener?.defaultFilterChain?.filters?.[0]?.name, 'envoy.filters.network.tcp_proxy');
    assert.equal(Number(listener?.listenerFiltersTimeout?.seconds), 5);
  });
});
