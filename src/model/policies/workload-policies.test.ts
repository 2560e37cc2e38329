/** Which request policies apply to a workload, and which workloads a change of them concerns. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { labelsMatch } from '../common/labels.ts';
import { meshOf, resource, step } from '../testing/build.ts';
import { applyChanges } from '../testing/steps.ts';
import type { Snapshot, WorkloadSelection } from '../types/types.ts';

const selecting = (labels: object) => ({ selector: { matchLabels: labels } });
const allow = (path: string, spec: object = {}, created?: number) =>
  resource('AuthorizationPolicy', path, spec, created === undefined ? {} : { created });
const jwt = (path: string, spec: object = {}) => resource('RequestAuthentication', path, spec);

function held(snapshot: Snapshot, namespace: string, labels: Record<string, string>): string[] {
  const { authentication, authorization } = snapshot.policiesOf(namespace, labels);
  return [...authentication, ...authorization];
}

test('the mesh’s and the namespace’s policies add up, each oldest first', () => {
  const snapshot = meshOf([
    allow('shop/new', {}, 2),
    allow('shop/old', {}, 1),
    allow('shop/web', selecting({ app: 'web' }), 3),
    allow('shop/db', selecting({ app: 'db' }), 3),
    allow('mesh-system/all', {}, 9),
    allow('mesh-system/web', selecting({ app: 'web' }), 9),
    allow('other/all'),
    jwt('shop/tokens', selecting({ app: 'web' })),
  ]);
  assert.deepEqual(held(snapshot, 'shop', { app: 'web', v: '1' }), [
    'RequestAuthentication/shop/tokens',
    'AuthorizationPolicy/mesh-system/all',
    'AuthorizationPolicy/mesh-system/web',
    'AuthorizationPolicy/shop/old',
    'AuthorizationPolicy/shop/new',
    'AuthorizationPolicy/shop/web',
  ]);
  assert.deepEqual(held(snapshot, 'mesh-system', {}), ['AuthorizationPolicy/mesh-system/all']);
});

test('a policy with targets applies to these and nowhere else', () => {
  const gateway = (name: string, more: object = {}) => ({
    group: 'gateway.networking.k8s.io',
    kind: 'Gateway',
    name,
    ...more,
  });
  const snapshot = meshOf([
    allow('shop/front', { targetRefs: [gateway('front'), gateway('back')] }),
    allow('shop/one', { targetRef: gateway('front') }),
    allow('shop/service', { targetRefs: [{ group: '', kind: 'Service', name: 'web' }] }),
    allow('shop/far', { targetRefs: [gateway('front', { namespace: 'other' })] }),
    allow('shop/class', { targetRef: { ...gateway('front'), kind: 'GatewayClass' } }),
    jwt('mesh-system/root', { targetRefs: [gateway('front')] }),
  ]);
  const front = { 'gateway.networking.k8s.io/gateway-name': 'front' };
  assert.deepEqual(held(snapshot, 'shop', { app: 'web' }), []);
  assert.deepEqual(held(snapshot, 'shop', front), ['AuthorizationPolicy/shop/front', 'AuthorizationPolicy/shop/one']);
  assert.deepEqual(held(snapshot, 'mesh-system', front), ['RequestAuthentication/mesh-system/root']);
  assert.deepEqual(held(snapshot, 'other', front), []);
});

describe('the workloads that a change concerns', () => {
  const before = meshOf([allow('shop/a', selecting({ app: 'web' })), allow('mesh-system/m')]);
  const rows: readonly [behaviour: string, changed: AnyResource, concerned: WorkloadSelection[]][] = [
    ['a policy of a namespace comes', allow('shop/b'), [{ namespace: 'shop', labels: {} }]],
    [
      'a selector changes',
      allow('shop/a', selecting({ app: 'db' })),
      [
        { namespace: 'shop', labels: { app: 'web' } },
        { namespace: 'shop', labels: { app: 'db' } },
      ],
    ],
    ['what a policy says changes', allow('shop/a', { ...selecting({ app: 'web' }), action: 'DENY' }), []],
    ['a policy of the mesh comes', jwt('mesh-system/n'), [{ namespace: undefined, labels: {} }]],
  ];
  for (const [behaviour, changed, concerned] of rows) {
    test(behaviour, () => {
      const { policies } = step(before, [changed]).changes;
      assert.deepEqual(policies, concerned);
    });
  }
});

test('property: after any changes the policies equal those found by reading all resources', () => {
  const labels = fc.constantFrom({}, { app: 'web' }, { app: 'db' });
  const edit = fc.record({
    kind: fc.constantFrom('AuthorizationPolicy' as const, 'RequestAuthentication' as const),
    path: fc.constantFrom('shop/a', 'shop/b', 'mesh-system/a', 'other/a'),
    selector: labels,
    gone: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(edit, { maxLength: 12 }), labels, (edits, workload) => {
      let snapshot = meshOf([]);
      const all = new Map<string, AnyResource>();
      for (const { kind, path, selector, gone } of edits) {
        const after = resource(kind, path, selecting(selector));
        const key = keyOf(after);
        const known = all.get(key);
        if (gone) all.delete(key);
        else all.set(key, after);
        const change = { key, before: known, after: gone ? undefined : after };
        const next = applyChanges(snapshot, { changes: [change] });
        for (const namespace of ['shop', 'other', 'mesh-system']) {
          const concerned = next.changes.policies.some(
            (of) => (of.namespace ?? namespace) === namespace && labelsMatch(of.labels, workload),
          );
          if (concerned) continue;
          assert.deepEqual(held(next.snapshot, namespace, workload), held(snapshot, namespace, workload));
        }
        snapshot = next.snapshot;
      }
      for (const namespace of ['shop', 'other', 'mesh-system']) {
        const expected = [...all.values()].filter(({ meta, content }) => {
          const { selector } = content as { selector: { matchLabels: Record<string, string> } };
          const near = meta.namespace === namespace || meta.namespace === 'mesh-system';
          return near && labelsMatch(selector.matchLabels, workload);
        });
        assert.deepEqual(held(snapshot, namespace, workload).sort(), expected.map(keyOf).sort());
      }
    }),
  );
});
