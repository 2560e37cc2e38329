import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Protocol } from '../../model/types.ts';
import type { InboundPort } from '../types.ts';
import { inboundListeners, inboundListenerUnits } from './inbound.ts';
import { chainTexts, inboundOf, inboundView, type World, worldOf } from './testing.ts';

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
const REST = 'InboundPassthroughClusterIpv4 if 0.0.0.0/0';

function virtualInbound(ports: readonly InboundPort[], world: World = {}) {
  return inboundOf(worldOf(world), inboundView({ ports })).listeners.get('virtualInbound');
}

test('ports are told apart by original destination; other ports pass', () => {
  const listener = virtualInbound([portOf(7000, 'TCP'), portOf(8080, 'HTTP', { servicePort: 80 })]);
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

test('only ports that nobody says the protocol of are looked into', () => {
  const ports = [portOf(3306, 'MySQL'), portOf(9000, 'Unsupported'), portOf(9001, 'Unsupported')];
  const listener = virtualInbound(ports, { settings: { inboundDetectionTimeoutMs: 1500 } });
  assert.deepEqual(chainTexts(listener), [
    GUARD,
    'inbound|3306|| if port 3306',
    'routes inbound|9000|| if port 9000 is HTTP',
    'inbound|9000|| if port 9000 is plain',
    'inbound|9000|| if port 9000',
    'routes inbound|9001|| if port 9001 is HTTP',
    'inbound|9001|| if port 9001 is plain',
    'inbound|9001|| if port 9001',
    REST,
  ]);
  assert.equal(listener?.listenerFiltersTimeout?.nanos, 500_000_000);
  assert.equal(listener?.continueOnListenerFiltersTimeout, true);
  for (const { filterDisabled } of listener?.listenerFilters.slice(1) ?? []) {
    const ranges = filterDisabled?.notMatch?.orMatch?.rules.map(
      ({ destinationPortRange }) => destinationPortRange?.start,
    );
    assert.deepEqual(ranges, [9000, 9001]);
  }
  assert.equal(listener?.listenerFilters.length, 3);
});

test('a single sniffed port needs no list of ports', () => {
  const listener = virtualInbound([portOf(9000, 'Unsupported')]);
  const predicate = listener?.listenerFilters[1]?.filterDisabled?.notMatch;
  assert.deepEqual([predicate?.destinationPortRange?.start, predicate?.destinationPortRange?.end], [9000, 9001]);
});

test('without sniffing what nobody says is TCP', () => {
  const listener = virtualInbound([portOf(9000, 'Unsupported')], { settings: { sniffInbound: false } });
  assert.deepEqual(chainTexts(listener), [GUARD, 'inbound|9000|| if port 9000', REST]);
});

test('services that share a port and its protocol are no conflict; other protocols are', () => {
  const view = inboundView({
    ports: [
      portOf(8080, 'HTTP', { hostname: 'a' }),
      portOf(8080, 'GRPC', { hostname: 'b' }),
      portOf(8080, 'TCP', { hostname: 'c' }),
    ],
  });
  const { listeners, findings } = inboundOf(worldOf({}), view);
  assert.deepEqual(chainTexts(listeners.get('virtualInbound')), [GUARD, 'routes inbound|8080|| if port 8080', REST]);
  assert.deepEqual(
    findings.map(({ metric, unit, message }) => [metric, unit, message.startsWith('c:')]),
    [['ctl_conflict_inbound_listener', 'virtual', true]],
  );
});

test("a service on the listener's own port does not open the loop", () => {
  assert.deepEqual(chainTexts(virtualInbound([portOf(15006, 'TCP')])), [GUARD, REST]);
});

test('TPROXY and IPv6', () => {
  const view = inboundView({ interception: 'TPROXY', ipv6Only: true });
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
  assert.deepEqual(inboundListeners(worldOf({}), view, 'virtual').resources, []);
});

test("a Sidecar's ingress listeners replace the services' ports; bound ones stand alone", () => {
  const ingress: World['ingress'] = [
    { port: { number: 9080, protocol: 'HTTP' } },
    { port: { number: 9081, protocol: 'TCP' }, bind: '127.0.0.1', captureMode: 'NONE' },
    { port: { number: 9082, protocol: 'TCP' }, bind: 'unix:///run/in.sock', captureMode: 'NONE' },
  ];
  const { listeners } = inboundOf(worldOf({ ingress }), inboundView({ ports: [portOf(8080, 'HTTP')] }));
  assert.deepEqual([...listeners.keys()], ['127.0.0.1_9081', '/run/in.sock', 'virtualInbound']);
  assert.deepEqual(chainTexts(listeners.get('virtualInbound')), [GUARD, 'routes inbound|9080|| if port 9080', REST]);
});

test('units of a scope that is gone make nothing', () => {
  const gone = inboundView({ scope: 'gone/' });
  assert.deepEqual(inboundListenerUnits(worldOf({}), gone), []);
  assert.deepEqual(inboundListeners(worldOf({}), gone, 'virtual').resources, []);
});
