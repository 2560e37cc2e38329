import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromProtoJson } from '../../protobuf/index.ts';
import { parseNode } from '../../xds/request/node.ts';
import { nodeOf, parseLabelFile } from './node.ts';
import { nodeInput } from './testing/inputs.ts';

const asRead = (changes: Parameters<typeof nodeInput>[0] = {}) =>
  parseNode(Buffer.from(fromProtoJson('envoy.config.core.v3.Node', nodeOf(nodeInput(changes)))));

test('the control plane reads the values that the node was made from', () => {
  const { addresses, labels, locality, metadata, ...rest } = asRead();
  assert.match(metadata ?? '', /"NAMESPACE","shop"/);
  assert.deepEqual(addresses, ['10.0.0.1', 'fd00::1']);
  assert.equal(labels.app, 'web');
  assert.equal(locality, 'r1/z1');
  assert.deepEqual(
    { ...rest, extensions: undefined },
    {
      id: 'sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local',
      type: 'sidecar',
      workload: 'web-0.shop',
      namespace: 'shop',
      dnsDomain: 'shop.svc.cluster.local',
      interception: 'REDIRECT',
      clusterId: 'Orchestrator',
      network: '',
      serviceAccount: 'web',
      identity: undefined,
      extensions: undefined,
      version: '',
      meshVersion: '1.2.3',
      sds: true,
      discoversVirtualHosts: false,
      shortEndpointNames: false,
    },
  );
});

test('the control plane knows which program answers DNS queries', () => {
  const env = { MESH_META_DNS_CAPTURE: 'true' };
  assert.equal(asRead().dns, undefined);
  assert.equal(asRead({ env }).dns, 'envoy');
  assert.equal(asRead({ dnsAgent: true }).dns, 'agent');
  assert.equal(asRead({ env, dnsAgent: true }).dns, 'agent');
  assert.deepEqual([asRead({ env }).mergesNames, asRead({ dnsAgent: true }).mergesNames], [undefined, true]);
});

test('the environment adds strings and JSON values to the metadata', () => {
  const env = {
    MESH_META_NETWORK: 'n1',
    MESH_META_EMPTY: '',
    MESH_METAJSON_LABELS: '{"version":"v1","istio-locality":"x/y"}',
    MESH_METAJSON_OWN: '{"a":[1]}',
    OTHER: 'x',
  };
  const node = nodeOf(nodeInput({ env, labelFile: 'app="web"' }));
  assert.deepEqual(node.metadata, {
    NAME: 'web-0',
    NAMESPACE: 'shop',
    CLUSTER_ID: 'Orchestrator',
    INSTANCE_IPS: '10.0.0.1,fd00::1',
    MESH_VERSION: '1.2.3',
    MESH_SDS_CLUSTER: 'sds-grpc',
    INTERCEPTION_MODE: 'REDIRECT',
    SERVICE_ACCOUNT: 'web',
    NETWORK: 'n1',
    OWN: { a: [1] },
    STATIC_LABELS: { version: 'v1', 'istio-locality': 'x/y' },
    LABELS: { app: 'web', version: 'v1', 'istio-locality': 'x/y' },
  });
  assert.deepEqual(node.locality, { region: 'x', zone: 'y' });
  const read = asRead({ env, labelFile: 'app="web"' });
  assert.deepEqual(read.staticLabels, { version: 'v1', 'istio-locality': 'x/y', 'mesh-locality': 'x/y' });
  assert.equal(asRead({ labelFile: 'app="web"' }).staticLabels, undefined);
});

test('a gateway has no interception mode, and a proxy without certificates does not announce any', () => {
  const { type, sds } = asRead({ role: 'router', sds: false });
  assert.deepEqual([type, sds], ['router', false]);
  assert.ok(!('INTERCEPTION_MODE' in (nodeOf(nodeInput({ role: 'router' })).metadata as object)));
});

test('metadata that is not JSON is refused with the name of its variable', () => {
  assert.throws(() => nodeOf(nodeInput({ env: { MESH_METAJSON_X: '{' } })), /MESH_METAJSON_X: not JSON/);
  assert.throws(
    () => nodeOf(nodeInput({ env: { MESH_METAJSON_LABELS: '{"a":1}' } })),
    /LABELS: expected an object of strings/,
  );
});

test('label files have quoted values, and malformed lines are ignored', () => {
  assert.deepEqual(parseLabelFile('a="1"\nb.c/d="x \\"y\\"=z"\n\nbroken\nc=1\n'), { a: '1', 'b.c/d': 'x "y"=z' });
});
