import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { PodObject } from '../types.ts';
import { createInjector } from './index.ts';
import { injected, withConfig } from './testing/settings.ts';

const GUIDE = readFileSync(join(import.meta.dirname, '../../../docs/injection.md'), 'utf8');
const [config = '', values = '', pod = ''] = [...GUIDE.matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text]) => text);

test('the examples of the guide are injected as it says', () => {
  const injector = createInjector(withConfig(config, values));
  const example = parse(pod) as { metadata: object; spec: object };
  const traced = { ...example.metadata, annotations: { 'inject.mesh.io/templates': 'traced' } };
  const result = injected(injector, { ...example, metadata: traced } as PodObject);
  const { metadata, spec } = result as {
    metadata: { annotations: Record<string, string> };
    spec: { initContainers: Record<string, unknown>[]; imagePullSecrets: unknown };
  };
  assert.equal(metadata.annotations['tracing.example/service'], 'web');
  assert.equal(metadata.annotations.team, 'platform');
  assert.deepEqual(spec.imagePullSecrets, [{ name: 'registry-example' }]);
  const proxy = spec.initContainers.find(({ name }) => name === 'mesh-proxy');
  assert.equal(proxy?.image, 'registry.example/mesh/ctl-agent:1.0');
  assert.deepEqual(proxy?.resources, { requests: { cpu: '50m', memory: '96Mi' }, limits: { memory: '2Gi' } });
  const { env: variables = [] } = proxy as { env?: { name: string; value: unknown }[] };
  const env = new Map(variables.map(({ name, value }) => [name, value]));
  assert.equal(env.get('TRACE_SAMPLING'), '10');
  assert.equal(env.get('APP_IMAGE'), 'registry.example/web:1');
});
