/** Options that contradict each other, and what injection says about them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { createInjector } from './index.ts';
import { SETTINGS, webPod, withConfig } from './testing/settings.ts';

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

test('a probe of an unknown port causes a warning and is not rewritten', () => {
  const containers = [{ name: 'app', image: 'app:1', readinessProbe: { tcpSocket: { port: 'sql' } } }];
  assert.match(String(warningsOf({}, { containers })), /readinessProbe\.tcpSocket\.port: no port of the container has/);
});

test('a probe of the agent itself is not rewritten', () => {
  const readinessProbe = { httpGet: { path: '/app-health/app/readyz', port: 15020 } };
  const result = injector.inject(
    webPod({ spec: { containers: [{ name: 'app', image: 'app:1', readinessProbe }] } }),
    'shop',
  );
  assert.ok(result.kind === 'injected');
  assert.deepEqual(result.warnings, [
    'spec.containers[app].readinessProbe.httpGet: the agent does not have the original probe, and returns HTTP 404',
  ]);
  assert.doesNotMatch(JSON.stringify(result.pod), /MESH_ORCH_APP_PROBERS/);
});

test('the scrape annotation accepts every spelling of true and false', () => {
  const variables = (scrape: string) => {
    const annotations = { 'prometheus.mesh.io/scrape': scrape, 'prometheus.mesh.io/port': '9090' };
    const result = injector.inject(webPod({ metadata: { name: 'web', annotations } }), 'shop');
    assert.ok(result.kind === 'injected');
    return /"MESH_METRICS_ANNOTATIONS".*?9090/.test(JSON.stringify(result.pod));
  };
  assert.deepEqual(['1', 'T', 'TRUE', '0', 'f'].map(variables), [true, true, true, false, false]);
  const off = { 'prometheus.mesh.io/scrape': '0' };
  const result = injector.inject(webPod({ metadata: { name: 'web', annotations: off } }), 'shop');
  assert.ok(result.kind === 'injected');
  assert.doesNotMatch(JSON.stringify(result.pod), /prometheus\.io\/port/);
});

test('labels of istio.io take precedence over those of the templates, as those of mesh.io do', () => {
  for (const domain of ['istio.io', 'mesh.io']) {
    const labels = { [`security.${domain}/tlsMode`]: 'disabled', [`${domain}/rev`]: 'stable' };
    const result = injector.inject(webPod({ metadata: { name: 'web', labels } }), 'shop');
    assert.ok(result.kind === 'injected');
    const { labels: given } = result.pod.metadata as { labels: Record<string, string> };
    assert.equal(given['security.mesh.io/tlsMode'], 'disabled');
    assert.equal(given['mesh.io/rev'], 'stable');
  }
});

test('a status port where Envoy listens is refused', () => {
  assert.match(
    refusal({ 'status.sidecar.mesh.io/port': '15090' }),
    /^metadata\.annotations\[status\.sidecar\.mesh\.io\/port\]: expected a status port other than 15090, /,
  );
  assert.match(
    refusal({ 'proxy.mesh.io/config': 'statusPort: 15001' }),
    /^metadata\.annotations\[proxy\.mesh\.io\/config\]: expected a status port other than 15001, /,
  );
});

test('a status port of mesh configuration or values where Envoy listens is refused with the field', () => {
  assert.throws(
    () => createInjector({ ...SETTINGS, proxyConfig: { statusPort: 15_090 } }).inject(webPod(), 'shop'),
    (error) => error instanceof CtlError && /^mesh configuration defaultConfig\.statusPort: /.test(error.oneLine()),
  );
  assert.throws(
    () => createInjector(withConfig('{}', 'global: { proxy: { statusPort: 15006 } }')),
    (error) => error instanceof CtlError && /^values\.yaml:1: global\.proxy\.statusPort: /.test(error.oneLine()),
  );
});

test('probes that no environment variable can hold are refused', () => {
  const httpHeaders = [{ name: 'Large', value: 'x'.repeat(130_000) }];
  const containers = [{ name: 'app', image: 'a', livenessProbe: { httpGet: { port: 80, httpHeaders } } }];
  const pod = (annotations: object) => webPod({ metadata: { annotations }, spec: { containers } });
  assert.throws(
    () => injector.inject(pod({}), 'shop'),
    /the probes take 1300\d\d bytes of the sidecar's environment, expected at most 130048; .*Probers: "false"/,
  );
  assert.equal(injector.inject(pod({ 'sidecar.mesh.io/rewriteAppHTTPProbers': 'false' }), 'shop').kind, 'injected');
});

test('two containers that override the same one of the templates are refused', () => {
  const proxies = Array.from({ length: 10_000 }, () => ({ name: 'mesh-proxy', image: 'auto' }));
  const app = { name: 'app', image: 'a' };
  const refused = (spec: object) => {
    try {
      injector.inject(webPod({ spec }), 'shop');
    } catch (error) {
      return error instanceof CtlError ? error.oneLine() : error;
    }
    return 'injected';
  };
  const message = 'expected one container mesh-proxy, which overrides the templates';
  assert.equal(refused({ containers: [app, ...proxies] }), `spec.containers[2].name: ${message}`);
  assert.equal(refused({ containers: [app], initContainers: proxies }), `spec.initContainers[1].name: ${message}`);
});

test('fields of probes that are null are left out, because the agent does not read them', () => {
  const target = { port: 80, path: null, host: null, scheme: null, httpHeaders: null };
  const containers = [{ name: 'app', image: 'a', readinessProbe: { httpGet: target } }];
  const result = injector.inject(webPod({ spec: { containers } }), 'shop');
  assert.ok(result.kind === 'injected');
  assert.ok(JSON.stringify(result.pod).includes(JSON.stringify('{"/app-health/app/readyz":{"httpGet":{"port":80}}}')));
});

test('variables of the proxy configuration that injection sets cause a warning', () => {
  const config = '{"proxyMetadata": {"POD_NAME": "x", "MINE": "y"}}';
  assert.deepEqual(warningsOf({ 'proxy.mesh.io/config': config }), [
    'metadata.annotations[proxy.mesh.io/config]: proxyMetadata.POD_NAME: no effect, because injection sets this variable',
  ]);
});

interface Variable {
  readonly name: string;
  readonly value?: string;
}

test('the agent states the topology of the annotation, and not that of the mesh, which the control plane knows', () => {
  const ofMesh = { gatewayTopology: { numTrustedProxies: 1 }, holdApplicationUntilProxyStarts: true };
  const injectorOfMesh = createInjector({ ...SETTINGS, proxyConfig: ofMesh });
  const topologyWith = (annotations: Record<string, string>): unknown => {
    const result = injectorOfMesh.inject(webPod({ metadata: { name: 'web', annotations } }), 'shop');
    assert.ok(result.kind === 'injected');
    const { initContainers } = result.pod.spec as { initContainers: readonly { env?: readonly Variable[] }[] };
    const config = initContainers.flatMap(({ env = [] }) => env).find(({ name }) => name === 'PROXY_CONFIG');
    const parsed: unknown = JSON.parse(config?.value ?? 'null');
    return (parsed as { gatewayTopology?: unknown }).gatewayTopology;
  };
  assert.equal(topologyWith({}), undefined);
  const own = JSON.stringify({ gatewayTopology: { forwardClientCertDetails: 'SANITIZE' } });
  assert.deepEqual(topologyWith({ 'proxy.mesh.io/config': own }), {
    numTrustedProxies: 1,
    forwardClientCertDetails: 'SANITIZE',
  });
});

test('selectors with names of istio.io select labels of mesh.io, and the reverse', () => {
  for (const [key, label] of [
    ['istio.io/rev', 'mesh.io/rev'],
    ['mesh.io/rev', 'istio.io/rev'],
    ['istio.io/rev', 'istio.io/rev'],
  ] as const) {
    const never = createInjector(withConfig(`neverInjectSelector: [{ matchLabels: { ${key}: old } }]\n`));
    const result = never.inject(webPod({ metadata: { labels: { [label]: 'old' } } }), 'shop');
    assert.deepEqual(result, { kind: 'skipped', reason: 'neverInjectSelector[0] selects the Pod' });
  }
});
