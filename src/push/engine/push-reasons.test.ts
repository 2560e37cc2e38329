import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Model } from '../../model/index.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../../resources/mesh-config.ts';
import type { MeshUpdate } from '../../resources/mesh-update.ts';
import { emptySnapshot, endpoints, parse, service, virtualService } from '../testing/mesh.ts';
import { pushReasons } from './push-reasons.ts';

/** The reasons of each of these changes, one after the other. */
function reasonsOf(...updates: readonly (AnyResource | Partial<MeshUpdate>)[]): string[][] {
  const model = Model.empty(emptySnapshot().settings, defaultMeshConfig(), defaultMeshNetworks());
  return updates.map((update) => {
    const changes = 'kind' in update ? [{ key: keyOf(update), before: undefined, after: update }] : [];
    const configuration = 'kind' in update ? {} : update;
    return [...pushReasons(model.apply({ changes, eventTime: 0, ...configuration }).changes)];
  });
}

test('changes of services, endpoints and configuration are the reasons of a push', () => {
  assert.deepEqual(
    reasonsOf(service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1'), virtualService('shop', 'web', '3s'), {
      mesh: { ...defaultMeshConfig(), rootNamespace: 'other' },
    }),
    [['service'], ['endpoint'], ['config'], ['mesh']],
  );
});

test('a change that generation does not read is not a reason for a push', () => {
  assert.deepEqual(reasonsOf(endpoints('shop', 'nobody', '10.0.0.1'), { networks: defaultMeshNetworks() }), [[], []]);
});

test('changed labels of a workload, which may be a gateway, are a reason', () => {
  const metadata = { name: 'edge-1', namespace: 'shop', labels: { app: 'edge' } };
  const status = { phase: 'Running', podIP: '10.0.0.9' };
  const pod = parse({ apiVersion: 'v1', kind: 'Pod', metadata, spec: { serviceAccountName: 'edge' }, status });
  assert.deepEqual(reasonsOf(service('shop', 'web'), pod), [['service'], ['proxy']]);
});
