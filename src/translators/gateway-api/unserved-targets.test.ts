import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyResource, keyOf, parseResource, type ResourceKey } from '../../resources/index.ts';
import { UnservedTargets } from './unserved-targets.ts';

const GATEWAY_API = 'gateway.networking.k8s.io';
const LABEL = `${GATEWAY_API}/gateway-name`;

function documentOf(apiVersion: string, kind: string, name: string, spec: object): AnyResource {
  const metadata = { name, ...(kind !== 'GatewayClass' && { namespace: 'shop' }) };
  const parsed = parseResource({ apiVersion, kind, metadata, spec }, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

const policy = (...gateways: readonly string[]) =>
  documentOf('security.mesh.io/v1beta1', 'AuthorizationPolicy', 'allow', {
    targetRefs: gateways.map((name) => ({ group: GATEWAY_API, kind: 'Gateway', name })),
    rules: [{}],
  });
const gateway = (name: string, gatewayClassName: string) =>
  documentOf(`${GATEWAY_API}/v1`, 'Gateway', name, {
    gatewayClassName,
    listeners: [{ name: 'mesh', port: 15008, protocol: 'HBONE' }],
  });
const gatewayClass = (name: string, controllerName: string) =>
  documentOf(`${GATEWAY_API}/v1`, 'GatewayClass', name, { controllerName });

function setup(controllerName: string | undefined = 'mesh.io/gateway-controller') {
  const store = new Map<ResourceKey, AnyResource>();
  const logged: string[] = [];
  const targets = new UnservedTargets({
    controllerName,
    resource: (key) => store.get(key),
    onWarnings: (_key, { warnings = [] }) => logged.push(...warnings.map(({ message }) => message)),
  });
  return {
    logged,
    put(...resources: readonly AnyResource[]) {
      const changes = resources.map((after) => ({ key: keyOf(after), before: store.get(keyOf(after)), after }));
      for (const { key, after } of changes) store.set(key, after);
      targets.apply(changes);
    },
    remove(resource: AnyResource) {
      store.delete(keyOf(resource));
      targets.apply([{ key: keyOf(resource), before: resource, after: undefined }]);
    },
    warnings: () => targets.warningsOf('AuthorizationPolicy/shop/allow'),
  };
}

const only = (name: string) => `in force only for proxies of this control plane with the label ${LABEL}: ${name}`;

test('a policy for a waypoint of another control plane has a warning, until it has another target', () => {
  const { put, warnings, logged } = setup();
  put(gatewayClass('edge', 'mesh.io/gateway-controller'), gatewayClass('istio-waypoint', 'istio.io/mesh-controller'));
  put(gateway('front', 'edge'), gateway('waypoint', 'istio-waypoint'), policy('front', 'waypoint'));
  const message = `Gateway shop/waypoint is of class istio-waypoint, which this control plane does not serve: ${only('waypoint')}`;
  assert.deepEqual(warnings(), [{ field: 'spec.targetRefs[1]', message }]);
  put(policy('front', 'waypoint'));
  assert.deepEqual(logged, [message]);
  put(policy('front'));
  assert.deepEqual(warnings(), []);
  assert.deepEqual(logged, [message]);
});

test('warnings follow the Gateway and its class', () => {
  const { put, remove, warnings } = setup();
  const messages = () => warnings().map(({ message }) => message.split(':')[0]);
  put(policy('front'));
  assert.deepEqual(messages(), ['Gateway shop/front does not exist']);
  put(gateway('front', 'edge'));
  assert.deepEqual(messages(), ['Gateway shop/front is of class edge, which this control plane does not serve']);
  const served = gatewayClass('edge', 'mesh.io/gateway-controller');
  put(served);
  assert.deepEqual(messages(), []);
  remove(served);
  assert.equal(messages().length, 1);
  remove(policy('front'));
  assert.deepEqual(messages(), []);
});

test('without the Gateway API all Gateways are unknown, and EnvoyFilters, authentications and Telemetry are told, too', () => {
  const { put, logged } = setup('');
  put(policy('front'));
  const off = new UnservedTargets({
    controllerName: undefined,
    resource: (key) => all.find((each) => keyOf(each) === key),
    onWarnings: (key, { warnings = [] }) => logged.push(`${key} ${warnings[0]?.field} ${warnings[0]?.message}`),
  });
  const targetRef = { group: GATEWAY_API, kind: 'Gateway', name: 'front' };
  const all = [
    documentOf('networking.mesh.io/v1alpha3', 'EnvoyFilter', 'a', { targetRefs: [targetRef], configPatches: [] }),
    documentOf('security.mesh.io/v1beta1', 'RequestAuthentication', 'b', { targetRef }),
    documentOf('telemetry.istio.io/v1', 'Telemetry', 'c', { targetRef }),
  ];
  logged.length = 0;
  off.apply(all.map((after) => ({ key: keyOf(after), before: undefined, after })));
  const message = `Gateway shop/front is not read without CTL_ENABLED_SERVICE_APIS: ${only('front')}`;
  assert.deepEqual(logged, [
    `EnvoyFilter/shop/a spec.targetRefs[0] ${message}`,
    `RequestAuthentication/shop/b spec.targetRef ${message}`,
    `Telemetry/shop/c spec.targetRef ${message}`,
  ]);
});
