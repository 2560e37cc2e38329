import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf } from '../../../resources/index.ts';
import { MeshReader, recorded } from '../../reads/index.ts';
import { meshOf, parsed } from '../../testing/mesh.ts';
import { outboundView } from '../../testing/views.ts';
import { telemetryOf } from './telemetry.ts';

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
