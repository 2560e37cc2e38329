import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { applyChanges } from '../../../model/testing/steps.ts';
import type { Snapshot } from '../../../model/types/types.ts';
import { envoy } from '../../../protobuf/index.ts';
import { type AnyResource, keyOf } from '../../../resources/kinds/types.ts';
import { parseMeshConfig } from '../../../resources/mesh-config.ts';
import { gatewayClusterUnits } from '../../clusters/gateway.ts';
import { MeshReader } from '../../reads/index.ts';
import { affectedUnits } from '../../testing/affected-units.ts';
import { guarded, policyOf } from '../../testing/authorization.ts';
import { viewOf } from '../../testing/gateways.ts';
import { inboundOf } from '../../testing/listeners.ts';
import { parsed } from '../../testing/mesh.ts';
import { decode, matches, passes } from '../../testing/rbac.ts';
import { gatewayOf } from '../../testing/routes.ts';
import type { HttpFilter } from '../types.ts';
import { connectionRules, policyProblems, requestRules } from './index.ts';

describe('an external authorizer', () => {
  const GRPC = '{name: a, envoyExtAuthzGrpc: {service: authz.shop.svc.cluster.local, port: 9000}}';
  const HTTP = '{name: a, envoyExtAuthzHttp: {service: authz.shop.svc.cluster.local, port: 9000}}';
  const AUTHZ = parsed({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'authz', namespace: 'shop' },
    spec: { clusterIP: '10.96.0.1', ports: [{ name: 'grpc', port: 9000 }] },
  });
  const policy = policyOf({
    spec: '{action: CUSTOM, provider: {name: a}, rules: [{to: [{operation: {methods: [PUT]}}]}]}',
  });
  const mesh = (...providers: readonly string[]) => {
    const parsed = parseMeshConfig({ extensionProviders: providers.map((text) => parse(text) as unknown) });
    assert.ok('value' in parsed);
    return { mesh: parsed.value };
  };
  const names = (filters: readonly HttpFilter[]) => filters.map(({ name }) => name);

  test('requests that a rule matches are marked, and the authorizer is called for marked requests', () => {
    const { snapshot, view } = guarded([policy, AUTHZ], mesh(GRPC));
    const { external } = requestRules(MeshReader.of(snapshot), view);
    const [mark, ask] = external;
    assert.deepEqual(names(external), ['envoy.filters.http.rbac', 'envoy.filters.http.ext_authz']);
    assert.ok(mark && ask);
    const { rules, shadowRules, shadowRulesStatPrefix } = decode(mark);
    assert.ok(rules === null && shadowRules !== null);
    assert.deepEqual(
      ['PUT', 'GET'].map((method) => matches(shadowRules, { method })),
      [true, false],
    );
    const config = envoy.extensions.filters.http.ext_authz.v3.ExtAuthz.decode(ask.typedConfig?.value as Uint8Array);
    assert.equal(config.grpcService?.envoyGrpc?.clusterName, 'outbound|9000||authz.shop.svc.cluster.local');
    const { filter, path } = config.filterEnabledMetadata ?? {};
    assert.deepEqual(
      [filter, path?.map(({ key }) => key)],
      ['envoy.filters.http.rbac', [`${shadowRulesStatPrefix}shadow_effective_policy_id`]],
    );
    assert.equal(config.failureModeAllow, false);
  });

  test('is called for connections too, with gRPC', () => {
    const { snapshot, view } = guarded([policy, AUTHZ], mesh(GRPC));
    assert.deepEqual(names(connectionRules(MeshReader.of(snapshot), view).filters), [
      'envoy.filters.network.rbac',
      'envoy.filters.network.ext_authz',
    ]);
  });

  test('with HTTP cannot be called for connections: they are refused', () => {
    const { snapshot, view } = guarded([policy, AUTHZ], mesh(HTTP));
    assert.ok(!passes(connectionRules(MeshReader.of(snapshot), view).filters, {}));
    assert.deepEqual(policyProblems(MeshReader.of(snapshot), view), []);
  });

  test('is found under the complete name of its service with a trailing dot', () => {
    const dotted = GRPC.replace(/service: ([\w.-]+)/, 'service: $1.');
    assert.notEqual(dotted, GRPC);
    const { snapshot, view } = guarded([policy, AUTHZ], mesh(dotted));
    assert.deepEqual(policyProblems(MeshReader.of(snapshot), view), []);
  });

  const unreachable: readonly (readonly [string, readonly string[], boolean, RegExp])[] = [
    [
      'that the mesh configuration does not have',
      [],
      true,
      /has no extension provider a; requests that match ns\[shop\]/,
    ],
    ['that it has twice', [GRPC, HTTP], true, /more than one extension provider a/],
    ['that is of another kind', ['{name: a}'], true, /must be exactly one kind of external authorizer/],
    ['that is not a service', [GRPC], false, /sees no service authz\.shop/],
    ['of another namespace', [GRPC.replace('service: ', 'service: other/')], true, /sees no service other\/authz/],
    ['at a port that is not', [GRPC.replace('9000', '9001')], true, /has no port 9001/],
  ];
  for (const [what, providers, exists, problem] of unreachable) {
    test(`${what}: requests that its rules match are refused, and a finding reports it`, () => {
      const { snapshot, view } = guarded(exists ? [policy, AUTHZ] : [policy], mesh(...providers));
      const { external } = requestRules(MeshReader.of(snapshot), view);
      assert.ok(passes(external, { method: 'GET' }) && !passes(external, { method: 'PUT' }));
      assert.match(policyProblems(MeshReader.of(snapshot), view).join(), problem);
      assert.match(
        inboundOf(snapshot, view)
          .findings.map(({ message }) => message)
          .join(),
        problem,
      );
    });
  }

  test('a service that is added or deleted causes new listeners; another service makes no difference', () => {
    const other = parsed({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'other', namespace: 'shop' },
      spec: { clusterIP: '10.96.0.2', ports: [{ name: 'http', port: 80 }] },
    });
    const edge = gatewayOf(
      { servers: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }] },
      { name: 'edge', namespace: 'shop' },
    );
    const { snapshot, view } = guarded([policy, edge], mesh(GRPC));
    const touched = (before: Snapshot, changed: AnyResource, there: boolean) => {
      const [from, to] = there ? [undefined, changed] : [changed, undefined];
      const step = applyChanges(before, { changes: [{ key: keyOf(changed), before: from, after: to }] });
      return [view, gateway].map((each) => affectedUnits(before, step.snapshot, step.changes, each)?.lds);
    };
    const gateway = viewOf({ namespace: 'shop', gateways: ['shop/edge'], policies: view.policies });
    const both = [new Set(['virtual']), new Set(['80'])];
    assert.deepEqual(touched(snapshot, AUTHZ, true), both);
    const { snapshot: known } = guarded([policy, edge, AUTHZ], mesh(GRPC));
    assert.deepEqual(touched(known, AUTHZ, false), both);
    assert.deepEqual(touched(snapshot, other, true), [undefined, undefined]);
  });

  test('its clusters are among those of a gateway with filtered clusters', () => {
    const { snapshot, view } = guarded([policy, AUTHZ], { ...mesh(GRPC), settings: { filterGatewayClusters: true } });
    const gateway = viewOf({ namespace: 'shop', policies: view.policies });
    assert.ok(gatewayClusterUnits(MeshReader.of(snapshot), gateway).includes('authz.shop.svc.cluster.local'));
    const unguarded = viewOf({ namespace: 'shop' });
    assert.ok(!gatewayClusterUnits(MeshReader.of(snapshot), unguarded).includes('authz.shop.svc.cluster.local'));
  });
});
