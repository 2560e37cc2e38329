import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { MeshReader } from '../reads/index.ts';
import { inboundView, worldOf } from '../testing/listeners.ts';
import type { InboundPort } from '../views.ts';
import { inboundClusters, inboundClusterUnits } from './index.ts';

const HTTP_OPTIONS = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions';

function clustersOf(ports: readonly InboundPort[]) {
  const [mesh, view] = [MeshReader.of(worldOf({})), inboundView({ ports })];
  const resources = inboundClusterUnits(mesh, view).flatMap((unit) => inboundClusters(mesh, view, unit).resources);
  return new Map(resources.map(({ name, bytes }) => [name, envoy.config.cluster.v3.Cluster.decode(bytes)]));
}

test('a port that several services share is one application with the protocol of the first service', () => {
  const port = (hostname: string, protocol: InboundPort['protocol']): InboundPort => {
    return { targetPort: 8080, servicePort: 80, portName: 'x', protocol, hostname, namespace: 'default' };
  };
  const options = (...protocols: readonly InboundPort['protocol'][]) =>
    clustersOf(protocols.map((protocol, index) => port(`s${index}`, protocol))).get('inbound|8080||')
      ?.typedExtensionProtocolOptions[HTTP_OPTIONS];
  assert.notDeepEqual(options('HTTP'), options('GRPC'));
  assert.deepEqual(options('HTTP', 'GRPC'), options('HTTP'));
  assert.deepEqual(options('GRPC', 'HTTP'), options('GRPC'));
});
