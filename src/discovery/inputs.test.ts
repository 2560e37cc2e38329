import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultDiscoverySettings } from '../cli/index.ts';
import { getScope } from '../observe/index.ts';
import type { MeshConfig } from '../resources/mesh-config.ts';
import { checkRegistries, openMeshFiles } from './inputs.ts';

test('a mesh configuration that changes what only a start can take says so, and the rest of it is followed', async (context) => {
  const dir = await mkdtemp(join(tmpdir(), 'meshd-inputs-'));
  const path = join(dir, 'mesh');
  await writeFile(path, 'trustDomain: one.example\n');
  const warn = context.mock.method(getScope('model'), 'warn', () => {});
  const changed = Promise.withResolvers<MeshConfig>();
  const settings = defaultDiscoverySettings({ meshConfig: path, networksConfig: join(dir, 'networks') });
  const files = await openMeshFiles(settings, { onMesh: changed.resolve, onNetworks: () => {} });
  context.after(async () => {
    await files.close();
    await rm(dir, { recursive: true });
  });
  assert.equal(files.mesh.trustDomain, 'one.example');
  await writeFile(path, 'trustDomain: two.example\nconnectTimeout: 3s\n');
  assert.equal((await changed.promise).connectTimeout, 3000);
  const lines = warn.mock.calls.map((call) => String(Reflect.get(call.arguments, 0)));
  assert.deepEqual(lines.length, 1);
  assert.match(lines[0] ?? '', /trustDomain .* needs a restart; until then "one.example" stays in force/);
});

test('the registry Orchestrator without a directory to read from is refused, other registries need none', () => {
  const check = (changes: Parameters<typeof defaultDiscoverySettings>[0]) => () =>
    checkRegistries(defaultDiscoverySettings(changes));
  assert.throws(check({}), /nothing to read from/);
  assert.throws(check({ registries: ['Mock', 'Orchestrator'] }), /nothing to read from/);
  check({ registries: ['Mock'] })();
  check({ configDir: 'config' })();
});
