import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyMesh, resource, step } from '../../model/testing/build.ts';
import { callerRanks } from './caller-ranks.ts';

const pod = (path: string, podIP: string, spec: object = {}, cluster?: string) =>
  resource('Pod', path, { spec, status: { podIP } }, cluster === undefined ? {} : { cluster });

const endpoints = (path: string, ip: string) =>
  resource('Endpoints', path, { subsets: [{ addresses: [{ ip }], ports: [{ port: 6443 }] }] });

const slice = (path: string, addresses: readonly string[]) =>
  resource('EndpointSlice', path, { addressType: 'IPv4', endpoints: [{ addresses }], ports: [{ port: 6443 }] });

const rank = callerRanks(
  step(emptyMesh(), [
    slice('default/kubernetes', ['10.1.0.1', '10.2.0.9']),
    endpoints('default/kubernetes', '10.1.0.2'),
    endpoints('shop/kubernetes', '10.1.0.3'),
    pod('shop/web', '10.2.0.1'),
    pod('shop/node', '10.1.0.9', { hostNetwork: true }),
    pod('kube-system/konnectivity-agent', '10.2.0.2'),
    pod('shop/far', '10.2.0.3', {}, 'far'),
    // An API server of a nested cluster is a Pod of this one.
    pod('control/api-server', '10.2.0.9'),
  ]),
);

test('the endpoints of default/kubernetes are API servers, Pods are not, and about other addresses nothing is known', () => {
  const ranks = ['10.1.0.1', '10.1.0.2', '10.2.0.9', '::ffff:10.1.0.1', '10.2.0.1', '::ffff:10.2.0.1'].map(rank);
  assert.deepEqual(ranks, ['api-server', 'api-server', 'api-server', 'api-server', 'pod', 'pod']);
  for (const address of ['10.1.0.3', '10.1.0.9', '10.2.0.2', '10.2.0.3', '192.0.2.1', '', 'localhost'])
    assert.equal(rank(address), 'unknown', address);
});
