import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PeerAuthentication, Protocol } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { MeshReader } from '../reads/index.ts';
import { chainText, chainTexts, inboundOf, inboundView, type World, worldOf } from '../testing/listeners.ts';
import type { Capabilities, InboundPort, NodeFamilies } from '../views.ts';
import { inboundListeners, inboundListenerUnits } from './inbound.ts';

function portOf(targetPort: number, protocol: Protocol, changes: Partial<InboundPort> = {}): InboundPort {
  return {
    targetPort,
    servicePort: targetPort,
    portName: 'port',
    protocol,
    hostname: 'web.default.svc.cluster.local',
    namespace: 'default',
    ...changes,
  };
}

const GUARD = 'BlackHoleCluster if port 15006';
/** Ports of no service, without and with protocol detection. */
const REST = 'InboundPassthroughClusterIpv4 if 0.0.0.0/0';
const SNIFFED_REST = [
  'routes InboundPassthroughClusterIpv4 if 0.0.0.0/0 is HTTP',
  'InboundPassthroughClusterIpv4 if 0.0.0.0/0 is plain',
  REST,
];
const UNSNIFFED = { settings: { sniffInbound: false } } as const;

function virtualInbound(ports: readonly InboundPort[], world: World = {}) {
  return inboundOf(worldOf(world), inboundView({ ports })).listeners.get('virtualInbound');
}

test('ports are distinguished by original destination; other ports are passed through', () => {
  const listener = virtualInbound([portOf(7000, 'TCP'), portOf(8080, 'HTTP', { servicePort: 80 })], UNSNIFFED);
  assert.deepEqual(chainTexts(listener), [
    GUARD,
    'inbound|7000|| if port 7000',
    'routes inbound|80|| if port 8080',
    REST,
  ]);
  assert.deepEqual(
    listener?.listenerFilters.map(({ name }) => name),
    ['envoy.filters.listener.original_dst'],
  );
  assert.equal(listener?.continueOnListenerFiltersTimeout, false);
});

test('only ports without a declared protocol are inspected', () => {
  const ports = [portOf(3306, 'MySQL'), portOf(8080, 'HTTP'), portOf(9000, 'Unsupported'), portOf(9001, 'Unsupported')];
  const listener = virtualInbound(ports, { settings: { inboundDetectionTimeoutMs: 1500 } });
  assert.deepEqual(chainTexts(listener), [
    GUARD,
    'inbound|3306|| if port 3306',
    'routes inbound|8080|| if port 8080',
    'routes inbound|9000|| if port 9000 is HTTP',
    'inbound|9000|| if port 9000 is plain',
    'inbound|9000|| if port 9000',
    'routes inbound|9001|| if port 9001 is HTTP',
    'inbound|9001|| if port 9001 is plain',
    'inbound|9001|| if port 9001',
    ...SNIFFED_REST,
  ]);
  assert.equal(listener?.listenerFiltersTimeout?.nanos, 500_000_000);
  assert.equal(listener?.continueOnListenerFiltersTimeout, true);
  for (const { filterDisabled } of listener?.listenerFilters.slice(1) ?? []) {
    const ranges = filterDisabled?.orMatch?.rules.map(({ destinationPortRange }) => destinationPortRange?.start);
    assert.deepEqual(ranges, [3306, 8080]);
  }
  assert.equal(listener?.listenerFilters.length, 3);
});

test('a single port that is not inspected needs no list of ports', () => {
  const listener = virtualInbound([portOf(9000, 'TCP')]);
  const predicate = listener?.listenerFilters[1]?.filterDisabled;
  assert.deepEqual([predicate?.destinationPortRange?.start, predicate?.destinationPortRange?.end], [9000, 9001]);
});

test('requests to ports of no service are served like others, including HTTP/1.0', () => {
  const listener = virtualInbound([]);
  const filter = listener?.filterChains[1]?.filters[0];
  const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
  const manager = HttpConnectionManager.decode(filter?.typedConfig?.value ?? new Uint8Array());
  assert.deepEqual(
    listener?.filterChains.map(({ name }) => name),
    [
      'virtualInbound-blackhole',
      'virtualInbound-catchall-http',
      'virtualInbound-catchall-tcp',
      'virtualInbound-catchall-tcp',
    ],
  );
  assert.equal(manager.httpProtocolOptions?.acceptHttp_10, true);
  assert.equal(manager.forwardClientCertDetails, 0);
  assert.equal(manager.routeConfig?.virtualHosts[0]?.routes[0]?.route?.cluster, 'InboundPassthroughClusterIpv4');
});

test('without protocol detection an undeclared protocol is TCP', () => {
  const listener = virtualInbound([portOf(9000, 'Unsupported')], UNSNIFFED);
  assert.deepEqual(chainTexts(listener), [GUARD, 'inbound|9000|| if port 9000', REST]);
});

test('services that share a port and its protocol do not conflict; other protocols do', () => {
  const view = inboundView({
    ports: [
      portOf(8080, 'HTTP', { hostname: 'a' }),
      portOf(8080, 'GRPC', { hostname: 'b' }),
      portOf(8080, 'TCP', { hostname: 'c' }),
    ],
  });
  const { listeners, findings } = inboundOf(worldOf({}), view);
  assert.deepEqual(chainTexts(listeners.get('virtualInbound')), [
    GUARD,
    'routes inbound|8080|| if port 8080',
    ...SNIFFED_REST,
  ]);
  assert.deepEqual(
    findings.map(({ metric, unit, message }) => [metric, unit, message.startsWith('c:')]),
    [['ctl_conflict_inbound_listener', 'virtual', true]],
  );
});

test("a service on the listener's own port does not cause a loop", () => {
  assert.deepEqual(chainTexts(virtualInbound([portOf(15006, 'TCP')])), [GUARD, ...SNIFFED_REST]);
});

test('TPROXY and IPv6', () => {
  const view = inboundView({ interception: 'TPROXY', families: 'ipv6' });
  const listener = inboundOf(worldOf({}), view).listeners.get('virtualInbound');
  assert.equal(listener?.transparent?.value, true);
  assert.equal(listener?.address?.socketAddress?.address, '::');
  assert.equal(chainTexts(listener).at(-1), 'InboundPassthroughClusterIpv6 if ::/0');
});

test("without redirection each port is bound on the workload's addresses", () => {
  const ports = [portOf(8080, 'HTTP'), portOf(9000, 'Unsupported')];
  const view = inboundView({ interception: 'NONE', ports, addresses: ['10.0.0.1', 'fd00::1'] });
  const { listeners } = inboundOf(worldOf({}), view);
  assert.deepEqual([...listeners.keys()], ['10.0.0.1_8080', 'fd00::1_8080', '10.0.0.1_9000', 'fd00::1_9000']);
  assert.deepEqual(chainTexts(listeners.get('fd00::1_9000')), [
    'routes inbound|9000|| if is HTTP',
    'inbound|9000|| if is plain',
    'inbound|9000||',
  ]);
  assert.deepEqual(inboundListeners(MeshReader.of(worldOf({})), view, 'virtual').resources, []);
});

test("without redirection nothing is bound at the application's address, where the proxy would call itself", () => {
  const ports = [portOf(8080, 'HTTP')];
  const at = (addresses: readonly string[], families: NodeFamilies = 'ipv4') => {
    const view = inboundView({ interception: 'NONE', ports, addresses, families });
    return [...inboundOf(worldOf({}), view).listeners.keys()];
  };
  assert.deepEqual(at(['127.0.0.1']), []);
  assert.deepEqual(at(['127.0.0.1', '10.0.0.1']), ['10.0.0.1_8080']);
  assert.deepEqual(at(['127.0.0.2']), ['127.0.0.2_8080']);
  assert.deepEqual(at(['::1'], 'ipv6'), []);
  assert.deepEqual(at(['127.0.0.1', '10.0.0.1', '::1', 'fd00::1'], 'dual'), ['10.0.0.1_8080', 'fd00::1_8080']);
});

test("a Sidecar's ingress listeners replace the services' ports; with a bind address they are separate", () => {
  const ingress: World['ingress'] = [
    { port: { number: 9080, protocol: 'HTTP' } },
    { port: { number: 9081, protocol: 'TCP' }, bind: '127.0.0.1', captureMode: 'NONE' },
    { port: { number: 9082, protocol: 'TCP' }, bind: 'unix:///run/in.sock', captureMode: 'NONE' },
  ];
  const { listeners } = inboundOf(worldOf({ ingress }), inboundView({ ports: [portOf(8080, 'HTTP')] }));
  assert.deepEqual([...listeners.keys()], ['127.0.0.1_9081', '/run/in.sock', 'virtualInbound']);
  assert.deepEqual(chainTexts(listeners.get('virtualInbound')), [
    GUARD,
    'routes inbound|9080|| if port 9080',
    ...SNIFFED_REST,
  ]);
});

test('units of a deleted scope have no resources', () => {
  const gone = inboundView({ scope: 'gone/' });
  assert.deepEqual(inboundListenerUnits(MeshReader.of(worldOf({})), gone), []);
  assert.deepEqual(inboundListeners(MeshReader.of(worldOf({})), gone, 'virtual').resources, []);
});

describe('peer authentication', () => {
  const STRICT: Capabilities = { extensions: undefined, sds: true };
  const PORTS = [portOf(7000, 'TCP'), portOf(8080, 'HTTP', { servicePort: 80 }), portOf(9000, 'Unsupported')];
  const under = (
    peerAuthentication: PeerAuthentication,
    capabilities = STRICT,
    ports: readonly InboundPort[] = PORTS,
    world: World = {},
  ) => inboundOf(worldOf(world), inboundView({ ports, peerAuthentication, capabilities }));

  /** A chain in one line: `7000 tls istio… → mutual inbound|7000||`. */
  function ways(listener: ReturnType<typeof virtualInbound>): string[] {
    return (listener?.filterChains.slice(1) ?? []).map((chain) => {
      const { destinationPort, transportProtocol, applicationProtocols } = chain.filterChainMatch ?? {};
      const names = applicationProtocols?.[0] ?? '';
      const target = chainText({ ...chain, filterChainMatch: null });
      const mutual = chain.transportSocket === null ? '' : 'mutual ';
      return [destinationPort?.value ?? 'rest', transportProtocol, names, `→ ${mutual}${target}`]
        .filter((text) => text !== '')
        .join(' ');
    });
  }

  test('STRICT: only mutual TLS is accepted', () => {
    const { listeners, findings } = under({ mode: 'STRICT', ports: {} });
    assert.deepEqual(ways(listeners.get('virtualInbound')), [
      '7000 tls → mutual inbound|7000||',
      '8080 tls → mutual routes inbound|80||',
      '9000 tls istio-http/1.0 → mutual routes inbound|9000||',
      '9000 tls → mutual inbound|9000||',
      'rest tls istio-http/1.0 → mutual routes InboundPassthroughClusterIpv4',
      'rest tls → mutual InboundPassthroughClusterIpv4',
    ]);
    assert.deepEqual(findings, []);
  });

  test('PERMISSIVE: plain text and the application’s own TLS are accepted as well', () => {
    const { listeners } = under({ mode: 'PERMISSIVE', ports: {} });
    assert.deepEqual(ways(listeners.get('virtualInbound')), [
      '7000 tls istio → mutual inbound|7000||',
      '7000 raw_buffer → inbound|7000||',
      '7000 tls → inbound|7000||',
      '8080 tls istio → mutual routes inbound|80||',
      '8080 raw_buffer → routes inbound|80||',
      '8080 tls → inbound|8080||',
      '9000 tls istio-http/1.0 → mutual routes inbound|9000||',
      '9000 tls istio → mutual inbound|9000||',
      '9000 raw_buffer http/1.0 → routes inbound|9000||',
      '9000 raw_buffer → inbound|9000||',
      '9000 tls → inbound|9000||',
      'rest tls istio-http/1.0 → mutual routes InboundPassthroughClusterIpv4',
      'rest tls istio → mutual InboundPassthroughClusterIpv4',
      'rest raw_buffer http/1.0 → routes InboundPassthroughClusterIpv4',
      'rest raw_buffer → InboundPassthroughClusterIpv4',
      'rest tls → InboundPassthroughClusterIpv4',
    ]);
  });

  test('DISABLE: the same bytes as without certificates; nothing waits for first bytes', () => {
    const view = { ports: PORTS, peerAuthentication: { mode: 'DISABLE', ports: {} } } as const;
    const [off, without] = [{ capabilities: STRICT }, {}].map((more) =>
      inboundOf(worldOf({}), inboundView({ ...view, ...more })).resources.get('virtualInbound'),
    );
    assert.deepEqual(off?.bytes, without?.bytes);
  });

  test('by port; first bytes are waited for only where necessary', () => {
    const ports = [portOf(7000, 'TCP'), portOf(7001, 'TCP'), portOf(7002, 'TCP')];
    const open = under({ mode: 'PERMISSIVE', ports: { 7000: 'DISABLE', 7002: 'STRICT' } }, STRICT, ports);
    const listener = open.listeners.get('virtualInbound');
    assert.deepEqual(ways(listener).slice(0, 5), [
      '7000 → inbound|7000||',
      '7001 tls istio → mutual inbound|7001||',
      '7001 raw_buffer → inbound|7001||',
      '7001 tls → inbound|7001||',
      '7002 tls → mutual inbound|7002||',
    ]);
    assert.equal(listener?.listenerFilters[1]?.filterDisabled?.destinationPortRange?.start, 7000);
    assert.equal(listener?.continueOnListenerFiltersTimeout, true);
    const closed = under({ mode: 'DISABLE', ports: { 7002: 'STRICT' } }, STRICT, ports, UNSNIFFED);
    const filter = closed.listeners.get('virtualInbound')?.listenerFilters[1];
    assert.equal(filter?.filterDisabled?.notMatch?.destinationPortRange?.start, 7002);
  });

  test('STRICT without certificates: nothing is accepted, and a finding', () => {
    const { listeners, findings } = under({ mode: 'STRICT', ports: { 7000: 'PERMISSIVE' } }, { ...STRICT, sds: false });
    assert.deepEqual(ways(listeners.get('virtualInbound')), [
      '7000 → inbound|7000||',
      '8080 tls → BlackHoleCluster',
      '9000 tls → BlackHoleCluster',
      'rest tls → BlackHoleCluster',
    ]);
    assert.match(
      findings[0]?.message ?? '',
      /^port 8080, port 9000, ports of no service: workloads in namespace \S+ deny all clients/,
    );
  });

  test('without the TLS inspector: only mutual TLS where it is required, only plain text elsewhere', () => {
    const unable: Capabilities = { extensions: [], sds: true };
    const { listeners } = under({ mode: 'PERMISSIVE', ports: { 7000: 'STRICT' } }, unable);
    assert.deepEqual(ways(listeners.get('virtualInbound')).slice(0, 2), [
      '7000 → mutual inbound|7000||',
      '8080 → routes inbound|80||',
    ]);
  });
});
