import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { parseMeshConfig } from '../../resources/mesh-config.ts';
import { edgeSettings } from './listeners.ts';

const { SANITIZE_SET, FORWARD_ONLY } =
  envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.ForwardClientCertDetails;

function settingsOf(gatewayTopology: object | undefined) {
  const parsed = parseMeshConfig(gatewayTopology && { defaultConfig: { gatewayTopology } });
  if ('problem' in parsed) throw new Error(parsed.problem.message);
  assert.equal(parsed.warning, undefined);
  return edgeSettings(parsed.value);
}

test('proxies in front of a gateway are trusted only if the mesh configuration says so', () => {
  for (const topology of [undefined, {}, { forwardClientCertDetails: 'UNDEFINED' }]) {
    const { xffNumTrustedHops, forwardClientCertDetails } = settingsOf(topology);
    assert.deepEqual([xffNumTrustedHops, forwardClientCertDetails], [0, SANITIZE_SET]);
  }
  const { xffNumTrustedHops, forwardClientCertDetails } = settingsOf({
    numTrustedProxies: 2,
    forwardClientCertDetails: 'FORWARD_ONLY',
  });
  assert.deepEqual([xffNumTrustedHops, forwardClientCertDetails], [2, FORWARD_ONLY]);
});

test('a request whose headers never end times out', () => {
  assert.deepEqual(settingsOf(undefined).requestHeadersTimeout, { seconds: 30, nanos: 0 });
});
