import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf, type ResourceKey } from '../../../resources/index.ts';
import { MeshReader, recorded } from '../../reads/index.ts';
import { meshOf, parsed } from '../../testing/mesh.ts';
import { outboundView } from '../../testing/views.ts';
import { telemetryOf, telemetryProblems } from './telemetry.ts';

const TELEMETRY = parsed({
  apiVersion: 'telemetry.mesh.io/v1',
  kind: 'Telemetry',
  metadata: { name: 'logs', namespace: 'default' },
  spec: { accessLogging: [{ disabled: true }] },
});

const KEY = keyOf(TELEMETRY);

/** @param sampling distinguishes plans */
function viewWith(sampling: number) {
  return outboundView({ tracing: { sampling } });
}

test('each unit of a view records what the telemetry of the view reads', () => {
  const reader = MeshReader.of(meshOf([TELEMETRY]));
  const view = outboundView({ telemetry: [KEY] });
  const [first, second] = [1, 2].map(() => recorded(() => telemetryOf(reader, view)));
  assert.equal(first?.value, second?.value);
  assert.ok(
    first?.facts.some((fact) => fact.includes(KEY)),
    first?.facts.join(),
  );
  assert.deepEqual(second?.facts, first?.facts);
});

test('telemetry that is in use is not evicted by that of many other proxies', () => {
  const reader = MeshReader.of(meshOf([], { mesh: { enableTracing: true } }));
  assert.notEqual(telemetryOf(reader, viewWith(1)), telemetryOf(reader, viewWith(2)));
  const used = telemetryOf(reader, viewWith(0));
  for (let sampling = 1; sampling <= 600; sampling++) {
    telemetryOf(reader, viewWith(sampling / 10));
    assert.equal(telemetryOf(reader, viewWith(0)), used);
  }
});

test('tags of Istio are added where they are asked for, and reported where Envoy cannot read them', () => {
  const document = parsed({
    apiVersion: 'telemetry.mesh.io/v1',
    kind: 'Telemetry',
    metadata: { name: 'tags', namespace: 'default' },
    spec: { tracing: [{ customTags: { 'istio.mesh_id': { literal: { value: 'mine' } } }, enableIstioTags: false }] },
  });
  const reader = MeshReader.of(meshOf([document], { mesh: { enableTracing: true } }));
  const tagsFor = (fieldsOf140: object, telemetry: readonly ResourceKey[] = []) => {
    const capabilities = { extensions: undefined, sds: false, ...fieldsOf140 };
    const view = outboundView({ tracing: { enableIstioTags: true }, telemetry, capabilities });
    const tags = telemetryOf(reader, view).tracing?.customTags ?? [];
    return [tags.map(({ tag }) => tag), telemetryProblems(reader, view).length];
  };
  const names = ['canonical_revision', 'canonical_service', 'cluster_id', 'mesh_id', 'namespace'];
  assert.deepEqual(tagsFor({ fieldsOf140: true }), [names.map((name) => `istio.${name}`), 0]);
  assert.deepEqual(tagsFor({}), [[], 1]);
  assert.deepEqual(tagsFor({}, [keyOf(document)]), [['istio.mesh_id'], 0]);
});
