import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Protocol, Service } from '../../model/types/types.ts';
import { chainsOf, inboundOf, inboundView, oneService, outboundOf, type World, worldOf } from '../testing/listeners.ts';
import { outboundView } from '../testing/views.ts';

test('a Sidecar listener takes its port for itself', () => {
  const services = [oneService('web', 'HTTP', 80), oneService('db', 'TCP', 80, ['10.96.0.1'])];
  const egress = [
    { port: { number: 80, protocol: 'HTTP', name: 'http' }, bind: '127.0.0.1', captureMode: 'NONE' },
    {},
  ] as const;
  const { listeners } = outboundOf(worldOf({ services, egress }));
  assert.deepEqual([...listeners.keys()], ['127.0.0.1_80', 'virtualOutbound']);
  assert.equal(listeners.get('127.0.0.1_80')?.bindToPort, null);
});

test('the first of two Sidecar listeners at one address gets it', () => {
  const services = [oneService('web', 'HTTP', 80)];
  const port = (protocol: Protocol) => ({ port: { number: 9000, protocol, name: '' }, bind: '127.0.0.1' });
  const chains = (...protocols: readonly Protocol[]) =>
    chainsOf({ services, egress: protocols.map(port) }, '127.0.0.1_9000');
  assert.deepEqual(chains('TCP', 'HTTP'), chains('TCP'));
  assert.deepEqual(chains('HTTP', 'TCP'), chains('HTTP'));
});

test('a Sidecar TCP listener leads to the port of its number, else to the only port', () => {
  const two: Service = {
    ...oneService('two', 'TCP', 1),
    ports: [1, 2].map((port) => ({ name: `p${port}`, port, protocol: 'TCP' })),
  };
  const egressOf = (number: number) => [{ port: { number, protocol: 'TCP', name: '' } as const }];
  const chains = (service: Service, number: number) =>
    chainsOf({ services: [service], egress: egressOf(number) }, `0.0.0.0_${number}`);
  assert.deepEqual(chains(two, 2), ['outbound|2||two.default.svc.cluster.local']);
  assert.deepEqual(chains(oneService('one', 'TCP', 1), 9), ['outbound|1||one.default.svc.cluster.local']);
  assert.deepEqual(chains(two, 9), ['no listener']);
});

test('a unix domain socket is bound and has routes of its own', () => {
  const egress = [{ port: { number: 0, protocol: 'HTTP', name: '' }, bind: 'unix:///run/out.sock' }] as const;
  const { listeners, resources } = outboundOf(worldOf({ services: [oneService('web', 'HTTP', 80)], egress }));
  assert.equal(listeners.get('/run/out.sock')?.address?.pipe?.path, '/run/out.sock');
  assert.equal(listeners.get('/run/out.sock')?.bindToPort, null);
  assert.deepEqual(resources.get('/run/out.sock')?.refs, ['/run/out.sock']);
});

test("a Sidecar's ingress listener takes precedence at its address", () => {
  const services = [oneService('web', 'HTTP', 9081), oneService('db', 'TCP', 9082), oneService('other', 'HTTP', 9083)];
  const ingress: World['ingress'] = [
    { port: { number: 9081, protocol: 'HTTP' }, bind: '127.0.0.1' },
    { port: { number: 9082, protocol: 'TCP' }, bind: '127.0.0.1', captureMode: 'IPTABLES' },
    { port: { number: 9083, protocol: 'HTTP' }, bind: '127.0.0.2' },
  ];
  const snapshot = worldOf({ services, ingress });
  const { listeners, findings } = outboundOf(snapshot, outboundView({ interception: 'NONE' }));
  assert.deepEqual([...listeners.keys()], ['127.0.0.1_9082', '127.0.0.1_9083']);
  assert.deepEqual(
    findings.map(({ metric, message }) => [metric, message.split(': ').at(-1)]),
    [['ctl_invalid_out_listeners', 'port 9081 is reserved (the Sidecar has an ingress listener there)']],
  );
  const inbound = inboundOf(snapshot, inboundView({ interception: 'NONE' })).listeners;
  assert.deepEqual(
    [...inbound.keys()].filter((name) => listeners.has(name)),
    [],
  );
  assert.ok(outboundOf(snapshot).listeners.has('0.0.0.0_9081'));
});
