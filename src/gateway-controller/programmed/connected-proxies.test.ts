/** What is noted of the proxies of Gateways that are connected to a replica. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { GatewayProxy, gatewayNode, type State, served } from '../testing/gateway-proxies.ts';
import { ConnectedProxies } from './connected-proxies.ts';
import { TURN_MS } from './counted-proxies.ts';
import { MAX_ERROR, MAX_PODS } from './report.ts';

function start(ports: readonly number[] = [80]) {
  const clock: FakeClock = fakeClock();
  const state = { listeners: ports.map((port) => served(port)), version: 1 };
  const proxies = new ConnectedProxies({
    clock,
    listenersOf: (key) => (key === 'KubernetesGateway/edge/web' ? state.listeners : undefined),
    version: () => state.version,
    onChanged: () => {},
  });
  const has = (pod = 'web-1') => {
    const { acknowledged = [], rejected = [] } = proxies.of('edge/web')?.get(pod) ?? {};
    return { acknowledged: [...acknowledged].sort(), rejected: [...rejected] };
  };
  const change = async (changed: readonly number[], version: number) => {
    state.listeners = changed.map((port) => served(port));
    proxies.changed(['edge/web']);
    // It is published at once.
    state.version = version;
    await Promise.resolve();
  };
  const publish = (version: number) => {
    state.version = version;
  };
  return { clock, proxies, has, change, publish };
}

function proxyAt(version: number, states: Readonly<Record<number, State>>): GatewayProxy {
  const proxy = new GatewayProxy();
  proxy.version = version;
  for (const [port, state] of Object.entries(states)) proxy.states.set(Number(port), state);
  return proxy;
}

test('a listener is acknowledged when the proxy has acknowledged it in the snapshot with the listener', async () => {
  const { clock, proxies, has, change } = start();
  const proxy = proxyAt(1, { 80: 'outstanding' });
  proxies.connected(gatewayNode(), proxy);
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, []);
  proxy.states.set(80, 'acknowledged');
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80']);

  await change([80, 81], 2);
  // The next snapshot is not generated for it yet, so that it has no listener on the port.
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80']);
  proxy.version = 2;
  proxy.states.set(81, 'outstanding');
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80']);
  proxy.states.set(81, 'acknowledged');
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80', 'digest-81']);
});

test('a listener for which Envoy needs none is acknowledged once the proxy has asked for listeners', async () => {
  const { clock, proxies, has } = start();
  const proxy = proxyAt(1, {});
  proxy.asks = false;
  proxies.connected(gatewayNode(), proxy);
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, []);
  proxy.asks = true;
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80']);
});

test('a listener that comes back has to be acknowledged once more', async () => {
  const { clock, proxies, has, change } = start([80, 81]);
  const proxy = proxyAt(1, { 80: 'acknowledged', 81: 'acknowledged' });
  proxies.connected(gatewayNode(), proxy);
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80', 'digest-81']);
  await change([80], 2);
  await change([80, 81], 3);
  assert.deepEqual(has().acknowledged, ['digest-80']);
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80']);
  proxy.version = 3;
  await clock.advance(1000);
  assert.deepEqual(has().acknowledged, ['digest-80', 'digest-81']);
});

test('a rejection counts until the proxy acknowledges the listener, even after it was acknowledged', async () => {
  const { clock, proxies, has, publish } = start([80, 1080]);
  const proxy = proxyAt(1, { 80: 'acknowledged', 1080: 'acknowledged' });
  const stream = proxies.connected(gatewayNode(), proxy);
  await clock.advance(1000);
  proxy.states.set(80, { rejected: `no\n  ${'x'.repeat(1000)}` });
  stream?.rejected();
  await clock.advance(1000);
  assert.deepEqual(has(), {
    acknowledged: ['digest-1080'],
    rejected: [['digest-80', `no ${'x'.repeat(MAX_ERROR - 3)}`]],
  });
  proxy.version = 2;
  publish(2);
  proxy.states.set(80, 'outstanding');
  await clock.advance(1000);
  assert.equal(has().rejected.length, 1);
  proxy.states.set(80, 'acknowledged');
  await clock.advance(1000);
  assert.deepEqual(has(), { acknowledged: ['digest-1080', 'digest-80'], rejected: [] });
});

test('only proxies count that have proven to be those of the Gateway', async () => {
  const identity = { trustDomain: 'cluster.local', namespace: 'edge', serviceAccount: 'web-meshd' };
  const others: readonly [string, Partial<ProxyNode>][] = [
    ['without a credential', { identity: undefined }],
    ['of another account', { identity: { ...identity, serviceAccount: 'other' } }],
    ['of another Gateway', { identity: { ...identity, serviceAccount: 'other-meshd' } }],
    ['of another namespace', { identity: { ...identity, namespace: 'shop' } }],
    ['without the label', { labels: {} }],
    ['that is a sidecar', { type: 'sidecar' }],
    ['without an Envoy', { proxyless: true }],
  ];
  for (const [what, changes] of others) {
    const { clock, proxies } = start();
    assert.equal(proxies.connected(gatewayNode(changes), proxyAt(1, { 80: 'acknowledged' })), undefined, what);
    await clock.advance(1000);
    assert.equal(proxies.report().size, 0, what);
  }
});

test('a Gateway is looked at until its proxies have acknowledged everything, and costs nothing then', async () => {
  const { clock, proxies } = start();
  const proxy = proxyAt(1, { 80: 'outstanding' });
  const stream = proxies.connected(gatewayNode(), proxy);
  await clock.advance(1000);
  const before = proxy.looks;
  assert.ok(before >= 4);
  proxy.states.set(80, 'acknowledged');
  await clock.advance(1000);
  const settled = proxy.looks;
  await clock.advance(60_000);
  assert.equal(proxy.looks, settled);
  assert.deepEqual(clock.pending(), []);
  stream?.disconnected();
  assert.equal(proxies.of('edge/web'), undefined);
});

test('a proxy that rejects a listener is looked at again once that may have changed, and not before', async () => {
  const { clock, proxies, has, change, publish } = start([80, 81]);
  const proxy = proxyAt(1, { 80: 'acknowledged', 81: { rejected: 'no' } });
  const stream = proxies.connected(gatewayNode(), proxy);
  const looksIn = async (ms: number) => {
    const before = proxy.looks;
    await clock.advance(ms);
    return proxy.looks - before;
  };
  assert.equal(await looksIn(60_000), 1);
  assert.deepEqual(has(), { acknowledged: ['digest-80'], rejected: [['digest-81', 'no']] });
  stream?.rejected();
  assert.equal(await looksIn(60_000), 1);
  await change([80, 81], 1);
  assert.equal(await looksIn(60_000), 1);

  publish(2);
  assert.equal(await looksIn(60_000), 0, 'it is not complete in the new version');
  proxy.version = 2;
  proxy.states.set(81, 'outstanding');
  assert.ok((await looksIn(1000)) >= 3);
  proxy.states.set(81, 'acknowledged');
  await clock.advance(1000);
  assert.deepEqual(has(), { acknowledged: ['digest-80', 'digest-81'], rejected: [] });
  assert.deepEqual(clock.pending(), []);
});

test('the states of a proxy are read once for all listeners', async () => {
  const ports = Array.from({ length: 64 }, (_, index) => 8000 + index);
  const { clock, proxies, has } = start(ports);
  const proxy = proxyAt(1, Object.fromEntries(ports.map((port) => [port, { rejected: 'no' }])));
  let reads = 0;
  const listeners = proxy.listeners.bind(proxy);
  proxy.listeners = () => {
    const states = new Map(listeners());
    const entries = states[Symbol.iterator].bind(states);
    states[Symbol.iterator] = () => {
      reads++;
      return entries();
    };
    return states;
  };
  proxies.connected(gatewayNode(), proxy);
  await clock.advance(250);
  assert.equal(has().rejected.length, ports.length);
  assert.equal(reads, 1);
});

test('looks are made in slices, in which namespaces share the time', async () => {
  const clock = fakeClock();
  const proxies = new ConnectedProxies({
    clock,
    listenersOf: () => [served(80)],
    version: () => 1,
    onChanged: () => {},
  });
  let looks = 0;
  const connect = (namespace: string, gateway: string) => {
    const proxy = proxyAt(1, { 80: 'outstanding' });
    const listeners = proxy.listeners.bind(proxy);
    proxy.listeners = () => {
      looks++;
      // What one look takes.
      clock.hang(2);
      return listeners();
    };
    const labels = { 'gateway.networking.k8s.io/gateway-name': gateway };
    const identity = { trustDomain: 'cluster.local', namespace, serviceAccount: `${gateway}-meshd` };
    proxies.connected(gatewayNode({ namespace, labels, identity, workload: `web-1.${namespace}` }), proxy);
    return proxy;
  };
  for (let index = 0; index < 500; index++) connect('shop', `web${index}`);
  clock.pass(250);
  assert.ok(looks <= 3, `${looks} looks in the first slice`);
  const honest = connect('edge', 'web');
  const before = looks;
  while (honest.looks === 0) {
    clock.pass(50);
    assert.ok(looks < before + 20, 'the other namespace waits for all of the first');
  }
  proxies.close();
});

for (const [what, state] of [
  ['have acknowledged nothing', 'outstanding'],
  ['have acknowledged everything, though their Pods may never be ready', 'acknowledged'],
  ['reject the listener', { rejected: 'no' }],
] as const)
  test(`proxies of a Gateway take turns when many are connected: the first ${what}`, async () => {
    const { clock, proxies } = start();
    for (let index = 0; index < MAX_PODS; index++)
      proxies.connected(gatewayNode({ workload: `old-${index}.edge` }), proxyAt(1, { 80: state }));
    proxies.connected(gatewayNode({ workload: 'web-1.edge' }), proxyAt(1, { 80: 'acknowledged' }));
    await clock.advance(1000);
    assert.equal(proxies.of('edge/web')?.has('web-1'), false);
    await clock.advance(TURN_MS);
    assert.deepEqual([...(proxies.of('edge/web')?.get('web-1')?.acknowledged ?? [])], ['digest-80']);
    const others = state === 'outstanding' ? 0 : MAX_PODS - 1;
    assert.equal(proxies.of('edge/web')?.size, 1 + others);
    // One that counted before has its next turn as well.
    const counted = () => [...(proxies.of('edge/web')?.keys() ?? [])];
    if (others > 0) {
      assert.ok(!counted().includes('old-0'));
      await clock.advance(TURN_MS);
      assert.ok(counted().includes('old-0'));
    }
  });

for (const [what, state] of [
  ['have acknowledged nothing', 'outstanding'],
  ['reject the listener', { rejected: 'no' }],
] as const)
  test(`a proxy that has acknowledged all listeners keeps its turn where others ${what}`, async () => {
    const { clock, proxies } = start();
    proxies.connected(gatewayNode(), proxyAt(1, { 80: 'acknowledged' }));
    for (let index = 0; index < 3 * MAX_PODS; index++)
      proxies.connected(gatewayNode({ workload: `old-${index}.edge` }), proxyAt(1, { 80: state }));
    for (let turn = 0; turn < 10; turn++) {
      await clock.advance(TURN_MS);
      assert.ok(proxies.of('edge/web')?.has('web-1'));
    }
  });

test('the first proxies of a Gateway are counted, and others when these end', async () => {
  const { clock, proxies } = start();
  const streams = Array.from({ length: MAX_PODS + 1 }, (_, index) =>
    proxies.connected(gatewayNode({ workload: `web-${index}.edge` }), proxyAt(1, { 80: 'acknowledged' })),
  );
  await clock.advance(1000);
  assert.equal(proxies.of('edge/web')?.size, MAX_PODS);
  assert.equal(proxies.of('edge/web')?.has(`web-${MAX_PODS}`), false);
  streams[0]?.disconnected();
  await clock.advance(1000);
  assert.deepEqual([...(proxies.of('edge/web')?.get(`web-${MAX_PODS}`)?.acknowledged ?? [])], ['digest-80']);
});
