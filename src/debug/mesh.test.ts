import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonPieces } from './json-pieces.ts';
import { instancesz } from './mesh.ts';
import type { Viewed } from './viewed.ts';

test('proxies of one name have an entry each, even where one has several streams', async () => {
  const connections = [
    ['sidecar~10.0.0.1~vm.shop~x', 'vm.shop'],
    ['sidecar~10.0.0.2~vm.shop~x', 'vm.shop'],
    ['sidecar~10.0.0.2~vm.shop~x', 'vm.shop'],
    ['sidecar~10.0.0.3~web.shop~x', 'web.shop'],
  ].map(([id, workload]) => ({ node: { id, workload } }));
  const mesh = { connections: () => connections, instancesOf: ({ id }: { id: string }) => [id] };
  let text = '';
  for await (const piece of jsonPieces(instancesz(mesh as unknown as Viewed))) text += piece;
  assert.deepEqual(JSON.parse(text), {
    'sidecar~10.0.0.1~vm.shop~x': ['sidecar~10.0.0.1~vm.shop~x'],
    'sidecar~10.0.0.2~vm.shop~x': ['sidecar~10.0.0.2~vm.shop~x'],
    'web.shop': ['sidecar~10.0.0.3~web.shop~x'],
  });
});
