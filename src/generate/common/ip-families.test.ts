import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import type { Endpoint } from '../../model/types/types.ts';
import type { NodeFamilies } from '../views.ts';
import { familiesOfNode, reachableEndpoints } from './ip-families.ts';

const MEMOS = new Memos();

const NODES: readonly (readonly [what: string, addresses: readonly string[], NodeFamilies])[] = [
  ['IPv4 alone', ['10.0.0.1', '192.168.0.1'], 'ipv4'],
  ['IPv6 alone', ['fd00::1', '2001:db8::1'], 'ipv6'],
  ['both, in either order', ['fd00::1', '10.0.0.1'], 'dual'],
  ['IPv4 and a link-local address', ['10.0.0.1', 'fe80::1', 'FEB0::1'], 'ipv4'],
  ['the loopback addresses of both', ['127.0.0.1', '::1'], 'dual'],
  ['no address', [], 'ipv4'],
  ['a string that is not an address', ['10.0.0.1', 'a:port', 'fd00::1%eth0'], 'ipv4'],
];
for (const [what, addresses, families] of NODES) {
  test(`families of a node with ${what}`, () => assert.equal(familiesOfNode(addresses), families));
}

function endpoint(address: string, workload?: string, port = 80): Endpoint {
  return {
    address,
    port,
    servicePort: 'http',
    labels: {},
    locality: '',
    network: '',
    weight: undefined,
    serviceAccount: '',
    health: 'healthy',
    workload: workload === undefined ? undefined : { namespace: 'default', name: workload },
    hostname: '',
    tlsReady: false,
  };
}

const reached = (endpoints: readonly Endpoint[], families: NodeFamilies) =>
  reachableEndpoints(MEMOS, endpoints, { families }).map(({ address }) => address);

test('a node gets the endpoints of the families that it can reach, each workload once', () => {
  const mixed = [
    endpoint('10.0.0.1', 'both'),
    endpoint('10.0.0.9'),
    endpoint('/run/app.sock'),
    endpoint('fd00::1', 'both'),
    endpoint('fd00::2', 'six'),
    endpoint('fd00::9'),
  ];
  assert.deepEqual(reached(mixed, 'ipv4'), ['10.0.0.1', '10.0.0.9', '/run/app.sock']);
  assert.deepEqual(reached(mixed, 'ipv6'), ['/run/app.sock', 'fd00::1', 'fd00::2', 'fd00::9']);
  assert.deepEqual(reached(mixed, 'dual'), ['10.0.0.1', '10.0.0.9', '/run/app.sock', 'fd00::2', 'fd00::9']);
});

test('another port of the same workload is another endpoint', () => {
  const ports = [endpoint('10.0.0.1', 'both', 80), endpoint('fd00::1', 'both', 81)];
  assert.deepEqual(reached(ports, 'dual'), ['10.0.0.1', 'fd00::1']);
});

test('endpoints of one family are the same list for every node, also for one without the family', () => {
  for (const endpoints of [[endpoint('10.0.0.1'), endpoint('host.example')], [endpoint('fd00::1')], []]) {
    for (const families of ['ipv4', 'ipv6', 'dual'] as const)
      assert.equal(reachableEndpoints(MEMOS, endpoints, { families }), endpoints);
  }
});

test('nodes of the same families share one list', () => {
  const mixed = [endpoint('10.0.0.1'), endpoint('fd00::1')];
  assert.equal(
    reachableEndpoints(MEMOS, mixed, { families: 'ipv6' }),
    reachableEndpoints(MEMOS, mixed, { families: 'ipv6' }),
  );
});
