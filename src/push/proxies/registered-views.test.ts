import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import { DEFAULT_PLACEMENT, isClientView } from '../../generate/index.ts';
import { endpoints, meshResource, parse, service, sidecar, snapshotOf } from '../testing/mesh.ts';
import { placementKey, placementOf, viewKey, viewsOf } from './proxy-views.ts';
import { placedViewKey, registeredViews } from './registered-views.ts';

function pod(namespace: string, name: string, podIP: string, labels: Readonly<Record<string, string>>) {
  const [spec, status] = [{ serviceAccountName: name }, { phase: 'Running', podIP }];
  return parse({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace, labels }, spec, status });
}

/** `web` is served and selected by a policy; `job` has no Service. */
const SNAPSHOT = snapshotOf([
  service('shop', 'web'),
  endpoints('shop', 'web', '10.0.0.1'),
  service('shop', 'db'),
  endpoints('shop', 'db', '10.0.0.2'),
  pod('shop', 'web-0', '10.0.0.1', { app: 'web' }),
  pod('shop', 'job', '10.0.0.3', { app: 'job' }),
  meshResource('PeerAuthentication', 'shop', 'web', {
    selector: { matchLabels: { app: 'web' } },
    mtls: { mode: 'STRICT' },
  }),
]);

const WEB: ProxyNode = { ...sidecar('10.0.0.1', 'shop'), labels: { app: 'web', extra: 'x' } };

/** The keys of the registry for the outbound and the inbound part of a proxy. */
function keysOf(node: ProxyNode): readonly (string | undefined)[] {
  const registered = registeredViews(SNAPSHOT, node);
  const placement = placementOf(SNAPSHOT, node);
  return viewsOf(SNAPSHOT, node).map((view) =>
    registered.get(placedViewKey(viewKey(view), placementKey(isClientView(view) ? placement : DEFAULT_PLACEMENT))),
  );
}

test('the registry accounts for what its workloads need, with one key for all features of their proxies', () => {
  const plain = keysOf(WEB);
  assert.ok(plain.every((key) => key !== undefined));
  const features: readonly Partial<ProxyNode>[] = [
    { sds: true },
    { extensions: [] },
    { version: '1.30.0', meshVersion: '1.7' },
    { interception: 'NONE' },
    { discoversVirtualHosts: true },
    { dns: 'envoy', mergesNames: true },
    { addresses: ['10.0.0.1', '2001:db8::1'] },
    { network: 'unknown', clusterId: 'other' },
    { options: { http10: true, idleTimeoutMs: 5 } },
    { tracing: { sampling: 0.5 } },
  ];
  for (const feature of features) assert.deepEqual(keysOf({ ...WEB, ...feature }), plain, JSON.stringify(feature));
  const [outbound, inbound] = keysOf({ ...sidecar('10.0.0.3', 'shop'), labels: { app: 'job' } });
  assert.equal(outbound, plain[0]);
  assert.ok(inbound !== undefined && inbound !== plain[1]);
});

test('it does not account for other claims', () => {
  const claims: readonly Partial<ProxyNode>[] = [
    { addresses: ['10.0.0.9'] },
    { namespace: 'other', dnsDomain: 'other.svc.cluster.local' },
  ];
  for (const claim of claims) assert.deepEqual(keysOf({ ...WEB, ...claim }), [undefined, undefined]);
  // The outbound part depends on neither.
  assert.equal(keysOf({ ...WEB, labels: { app: 'other' } })[1], undefined);
  assert.equal(keysOf({ ...WEB, addresses: ['10.0.0.1', '10.0.0.2'] })[1], undefined);
});
