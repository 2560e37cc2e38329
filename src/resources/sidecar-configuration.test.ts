import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseResource } from './parsing/parse.ts';
import { sidecarConfigurationOf } from './sidecar-configuration.ts';

function parsed(metadata: object) {
  const raw = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', ...metadata } };
  const result = parseResource(raw, { source: 'test', file: 'a.yaml' }, () => 4);
  assert.ok('resource' in result);
  return result.resource;
}

test('a Namespace states the configuration of its sidecars by label or annotation', () => {
  const key = 'sidecar.mesh.io/configuration';
  const rows: readonly (readonly [object, string | undefined])[] = [
    [{}, undefined],
    [{ labels: { [key]: 'learned' } }, 'learned'],
    [{ annotations: { [key]: 'on-demand' } }, 'on-demand'],
    [{ labels: { [key]: 'all' }, annotations: { [key]: 'learned' } }, 'all'],
    [{ labels: { 'sidecar.istio.io/configuration': 'learned' } }, 'learned'],
  ];
  for (const [metadata, expected] of rows) {
    const { meta, warnings } = parsed(metadata);
    assert.equal(sidecarConfigurationOf(meta), expected, JSON.stringify(metadata));
    assert.equal(warnings, undefined);
  }
});

test('an unknown configuration is reported, and means everything', () => {
  const { meta, warnings } = parsed({ labels: { 'sidecar.mesh.io/configuration': 'lazy' } });
  assert.equal(sidecarConfigurationOf(meta), 'all');
  assert.deepEqual(warnings, [
    {
      field: 'metadata.labels["sidecar.mesh.io/configuration"]',
      message: 'expected one of all, on-demand, learned, got "lazy": its sidecars get everything',
      line: 4,
    },
  ]);
});
