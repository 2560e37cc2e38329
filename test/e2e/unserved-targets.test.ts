/** A policy for a waypoint of another control plane: the log and the page of documents say that nothing enforces it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, startDiscovery, tempDir } from '../harness/index.ts';
import { configDir, type Document, NAMESPACE, resource } from './support/config.ts';
import { suiteOwner } from './support/suite.ts';

const owner = suiteOwner();
const GATEWAY_API = 'gateway.networking.k8s.io';

function gatewayApi(kind: string, name: string, spec: object): Document {
  const metadata = { name, ...(kind === 'Gateway' && { namespace: NAMESPACE }) };
  return { apiVersion: `${GATEWAY_API}/v1`, kind, metadata, spec };
}

const waypoint = (gatewayClassName: string): Document =>
  gatewayApi('Gateway', 'waypoint', {
    gatewayClassName,
    listeners: [{ name: 'mesh', port: 15008, protocol: 'HBONE' }],
  });

test('a policy for a waypoint has a warning while its Gateway is of another control plane, and so has a label', async () => {
  const dir = await tempDir(owner);
  const config = configDir(dir);
  await config.apply(
    'classes',
    gatewayApi('GatewayClass', 'istio-waypoint', { controllerName: 'istio.io/mesh-controller' }),
    gatewayApi('GatewayClass', 'mesh', { controllerName: 'mesh.io/gateway-controller' }),
  );
  await config.apply('waypoint', waypoint('istio-waypoint'));
  const targetRef = { group: GATEWAY_API, kind: 'Gateway', name: 'waypoint' };
  await config.apply(
    'policy',
    resource('AuthorizationPolicy', 'deny', { action: 'DENY', targetRefs: [targetRef], rules: [{}] }),
  );
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'behind', namespace: NAMESPACE, labels: { 'istio.io/use-waypoint': 'waypoint' } },
    spec: { ports: [{ name: 'http', port: 80 }] },
  };
  await config.apply('service', service);
  const discovery = await startDiscovery(owner, { configDir: dir, env: { CTL_ENABLED_SERVICE_APIS: 'true' } });
  const warnings = async (): Promise<string> => {
    const { items } = JSON.parse((await discovery.http('/debug/configz?kind=AuthorizationPolicy')).body) as {
      readonly items: readonly { readonly warnings?: object }[];
    };
    assert.equal(items.length, 1);
    return JSON.stringify(items[0]?.warnings ?? []);
  };
  const reason = /Gateway default\/waypoint is of class istio-waypoint, which this control plane does not serve/;
  await eventually(async () => assert.match(await warnings(), reason));
  assert.match(
    discovery.output(),
    /policy\.yaml:.*AuthorizationPolicy\/default\/deny: spec\.targetRefs\[0\]: Gateway /,
  );
  assert.match(discovery.output(), /service\.yaml:.*Service\/default\/behind: .*use-waypoint.*waypoint proxies/);
  await config.apply('waypoint', waypoint('mesh'));
  await eventually(async () => assert.equal(await warnings(), '[]'));
});
