/** Options that contradict each other, and what injection says about them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { createInjector } from './index.ts';
import { SETTINGS, webPod } from './testing/settings.ts';

const injector = createInjector(SETTINGS);

function refusal(annotations: Record<string, string>): string {
  try {
    injector.inject(webPod({ metadata: { name: 'web', annotations } }), 'shop');
  } catch (error) {
    assert.ok(error instanceof CtlError);
    return error.oneLine();
  }
  return assert.fail('the Pod was injected');
}

function warningsOf(annotations: Record<string, string>, spec: object = {}): readonly string[] {
  const result = injector.inject(webPod({ metadata: { name: 'web', annotations }, spec }), 'shop');
  return result.kind === 'injected' ? result.warnings : assert.fail(result.reason);
}

test('a request above its limit is refused with both annotations', () => {
  const line = refusal({ 'sidecar.mesh.io/proxyCPU': '2', 'sidecar.mesh.io/proxyCPULimit': '1500m' });
  assert.match(line, /^metadata\.annotations\[sidecar\.mesh\.io\/proxyCPU\]: expected at most the limit 1500m of /);
});

test('metadata of the proxy must have names of environment variables', () => {
  const line = refusal({ 'proxy.mesh.io/config': '{"proxyMetadata": {"a b": "c"}}' });
  assert.match(line, /^metadata\.annotations\[proxy\.mesh\.io\/config\]: proxyMetadata: .* got "a b"$/);
});

const NOT_MERGED: readonly (readonly [annotation: string, value: string, warning: RegExp])[] = [
  ['prometheus.io/port', 'metrics', /prometheus\.io\/port\]: expected a port: /],
  ['prometheus.io/port', '15020', /15020 is the port of the agent: /],
  ['prometheus.io/path', 'metrics', /expected a path that begins with \/: /],
  ['prometheus.io/scheme', 'https', /expected http: /],
];

for (const [annotation, value, warning] of NOT_MERGED)
  test(`metrics with ${annotation} ${value} cause a warning and are not merged`, () => {
    const annotations = { 'prometheus.io/scrape': 'true', [annotation]: value };
    const result = injector.inject(webPod({ metadata: { name: 'web', annotations } }), 'shop');
    assert.ok(result.kind === 'injected');
    assert.equal(result.warnings.length, 1);
    assert.match(String(result.warnings[0]), warning);
    const { annotations: kept } = result.pod.metadata as { annotations: Record<string, string> };
    for (const [name, text] of Object.entries(annotations)) assert.equal(kept[name], text);
  });

test('a probe of an unknown port causes a warning and stays', () => {
  const containers = [{ name: 'app', image: 'app:1', readinessProbe: { tcpSocket: { port: 'sql' } } }];
  assert.match(String(warningsOf({}, { containers })), /readinessProbe\.tcpSocket\.port: no port of the container has/);
});

test('a probe of the agent itself stays', () => {
  const readinessProbe = { httpGet: { path: '/app-health/app/readyz', port: 15020 } };
  const result = injector.inject(
    webPod({ spec: { containers: [{ name: 'app', image: 'app:1', readinessProbe }] } }),
    'shop',
  );
  assert.ok(result.kind === 'injected');
  assert.doesNotMatch(JSON.stringify(result.pod), /MESH_ORCH_APP_PROBERS/);
});
