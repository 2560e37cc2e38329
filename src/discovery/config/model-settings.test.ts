import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultMeshConfig, type MeshConfig } from '../../resources/mesh-config.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { restartWatch } from './model-settings.ts';

function watch(settings: Parameters<typeof defaultDiscoverySettings>[0], first: Partial<MeshConfig>) {
  const lines: string[] = [];
  const tell = restartWatch(defaultDiscoverySettings(settings), { ...defaultMeshConfig(), ...first }, (line) =>
    lines.push(line),
  );
  return (next: Partial<MeshConfig>): string[] => {
    lines.length = 0;
    tell({ ...defaultMeshConfig(), ...next });
    return [...lines];
  };
}

test('a changed trust domain or root namespace is warned about once, and again when it is reverted', () => {
  const change = watch({ namespace: 'mesh-system' }, { trustDomain: 'one.example' });
  assert.deepEqual(change({ trustDomain: 'one.example', connectTimeout: 1 }), []);
  assert.deepEqual(change({ trustDomain: 'two.example' }), [
    'trustDomain of the mesh configuration is now "two.example", which needs a restart; ' +
      'until then "one.example" stays in force',
  ]);
  assert.deepEqual(change({ trustDomain: 'two.example', connectTimeout: 2 }), []);
  assert.deepEqual(change({ trustDomain: 'one.example', rootNamespace: 'root' }), [
    'rootNamespace of the mesh configuration is now "root", which needs a restart; ' +
      'until then "mesh-system" stays in force',
    'trustDomain of the mesh configuration is "one.example" again, which is in force',
  ]);
});

test('a changed class of Ingresses, or a mode that was OFF, is warned about where an API server is read', () => {
  const off = watch({}, { ingressControllerMode: 'OFF' });
  assert.deepEqual(off({ ingressControllerMode: 'OFF', connectTimeout: 1 }), []);
  const restart = 'ingressControllerMode of the mesh configuration is now "STRICT", which needs a restart; ';
  assert.deepEqual(off({ ingressControllerMode: 'STRICT' }), [`${restart}until then no Ingress is read`]);
  assert.deepEqual(off({ ingressControllerMode: 'STRICT', connectTimeout: 2 }), []);
  assert.deepEqual(watch({}, {})({ ingressClass: 'edge' }), [
    'ingressClass of the mesh configuration is now "edge"; Secrets of its Ingresses may be read only after a restart',
  ]);
  assert.deepEqual(watch({ configDir: 'config' }, {})({ ingressClass: 'edge' }), [], 'a directory is read whole');
});

test('a field that a flag overrides, or that keeps its value, needs no restart', () => {
  const change = watch({ namespace: 'mesh-system', trustDomain: 'flag.example' }, {});
  assert.deepEqual(change({ trustDomain: 'two.example', rootNamespace: 'mesh-system' }), []);
});

test('changed sources of configuration need a restart, which is warned about once', () => {
  const change = watch({}, { configSources: [{ address: 'a:1' }] });
  assert.deepEqual(change({ configSources: [{ address: 'a:1' }] }), []);
  const other = { configSources: [{ address: 'a:1' }, { address: 'xds://b:2' }] };
  const warning =
    'configSources of the mesh configuration changed (now a:1, xds://b:2), which needs a restart; until then those ' +
    'of the start are read';
  assert.deepEqual(change(other), [warning]);
  assert.deepEqual(change({ ...other, connectTimeout: 1 }), []);
  assert.deepEqual(change({ configSources: [{ address: 'a:1' }] }), [
    'configSources of the mesh configuration are those in force again: a:1',
  ]);
});
