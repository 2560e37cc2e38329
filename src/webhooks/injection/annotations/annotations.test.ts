/** Reading of annotations and labels: values, refusals and warnings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../../core/errors.ts';
import { ANNOTATIONS, readAnnotations } from './annotations.ts';

const read = (annotations: Record<string, string>, labels: Record<string, string> = {}) =>
  readAnnotations({ annotations, labels });

function refusal(name: string, text: string): string {
  try {
    read({ [name]: text });
  } catch (error) {
    assert.ok(error instanceof CtlError);
    assert.equal(error.code, 'invalid_argument');
    return error.oneLine();
  }
  return assert.fail(`${name}: ${text} was accepted`);
}

test('a Pod without annotations has no options', () => {
  assert.deepEqual(readAnnotations(undefined), { options: {}, warnings: [] });
  assert.deepEqual(readAnnotations({ annotations: ['x'], labels: 'y' }), { options: {}, warnings: [] });
});

test('names of istio.io mean the same, and those of mesh.io take precedence', () => {
  assert.equal(read({ 'sidecar.istio.io/logLevel': 'debug' }).options.logLevel, 'debug');
  const both = { 'sidecar.istio.io/logLevel': 'nonsense', 'sidecar.mesh.io/logLevel': 'info' };
  assert.equal(read(both).options.logLevel, 'info');
});

test('a label takes precedence over an annotation of the same name', () => {
  const name = 'sidecar.istio.io/inject';
  assert.equal(read({ [name]: 'true' }, { [name]: 'off' }).options.inject, false);
  assert.equal(read({ [name]: 'Yes' }).options.inject, true);
});

const ACCEPTED: readonly (readonly [name: string, text: string, value: unknown])[] = [
  ['traffic.sidecar.mesh.io/includeInboundPorts', ' * ', ['*']],
  ['traffic.sidecar.mesh.io/includeInboundPorts', '', []],
  ['traffic.sidecar.mesh.io/excludeInboundPorts', '80, 81,,80', ['80', '81']],
  [
    'traffic.sidecar.mesh.io/includeOutboundIPRanges',
    '10.0.0.0/8, fd00::/8,192.0.2.1',
    ['10.0.0.0/8', 'fd00::/8', '192.0.2.1'],
  ],
  ['traffic.sidecar.mesh.io/kubevirtInterfaces', 'net1,tap+', ['net1', 'tap+']],
  ['sidecar.mesh.io/proxyCPU', '.5', '.5'],
  ['sidecar.mesh.io/proxyMemory', '1.5Gi', '1.5Gi'],
  ['sidecar.mesh.io/proxyMemoryLimit', '2e9', '2e9'],
  ['sidecar.mesh.io/rewriteAppHTTPProbers', 'False', false],
  ['sidecar.mesh.io/componentLogLevel', 'http:debug, upstream:info', 'http:debug,upstream:info'],
  ['sidecar.mesh.io/agentLogLevel', 'all:warn,sds:debug', 'all:warn,sds:debug'],
  ['sidecar.mesh.io/discoveryAddress', '[2001:db8::1]:15012', '[2001:db8::1]:15012'],
  ['status.sidecar.mesh.io/port', '0', 0],
  ['sidecar.mesh.io/userVolume', '{"a": {"emptyDir": {}}}', [{ name: 'a', emptyDir: {} }]],
  ['sidecar.mesh.io/userVolumeMount', '[{"name": "a", "mountPath": "/a"}]', [{ name: 'a', mountPath: '/a' }]],
  [
    'proxy.mesh.io/config',
    'concurrency: 3\nproxyMetadata: {A: b}',
    {
      config: { concurrency: 3, proxyMetadata: { A: 'b' } },
      warning: undefined,
    },
  ],
  ['proxy.mesh.io/config', '', { config: {}, warning: undefined }],
];

for (const [name, text, value] of ACCEPTED)
  test(`${name} accepts ${JSON.stringify(text)}`, () => {
    const { options, warnings } = read({ [name]: text });
    assert.deepEqual(Object.values(options), [value]);
    assert.deepEqual(warnings, []);
  });

const REFUSED: readonly (readonly [name: string, text: string, why: RegExp])[] = [
  ['traffic.sidecar.istio.io/excludeInboundPorts', '80,0', /expected ports from 1 to 65535, .*, got "0"/],
  ['traffic.sidecar.mesh.io/excludeOutboundPorts', '80;81', /expected ports/],
  ['traffic.sidecar.mesh.io/excludeOutboundPorts', '*', /expected ports/],
  ['traffic.sidecar.mesh.io/includeInboundPorts', '65536', /expected ports/],
  ['traffic.sidecar.mesh.io/includeInboundPorts', '80,'.repeat(4000), /expected at most 6144 characters/],
  ['traffic.sidecar.mesh.io/includeOutboundIPRanges', '10.0.0.0/33', /expected address ranges/],
  ['traffic.sidecar.mesh.io/excludeOutboundIPRanges', 'fe80::1%eth0', /expected address ranges/],
  ['traffic.sidecar.mesh.io/kubevirtInterfaces', '-x', /expected names of network interfaces/],
  ['sidecar.mesh.io/proxyCPU', '-1', /expected a quantity/],
  ['sidecar.mesh.io/proxyCPU', '0', /expected a quantity/],
  ['sidecar.mesh.io/proxyMemory', '1GB', /expected a quantity/],
  ['sidecar.mesh.io/logLevel', 'loud', /expected one of trace, debug,/],
  ['sidecar.mesh.io/componentLogLevel', 'http=debug', /expected <component>:<level>/],
  ['sidecar.mesh.io/agentLogLevel', 'nowhere:debug', /unknown log scope "nowhere"/],
  ['sidecar.mesh.io/proxyImage', 'a b', /expected an image/],
  ['sidecar.mesh.io/proxyImage', 'a\nb: c', /expected an image/],
  ['sidecar.mesh.io/bootstrapOverride', '../x', /expected the name of a ConfigMap/],
  ['sidecar.mesh.io/discoveryAddress', 'host', /expected host:port/],
  ['sidecar.mesh.io/interceptionMode', 'redirect', /expected one of REDIRECT, TPROXY, NONE/],
  ['sidecar.mesh.io/userVolume', '{', /expected JSON, got "\{"/],
  ['sidecar.mesh.io/userVolume', '[{"emptyDir": {}}]', /expected JSON of volumes with a name/],
  ['sidecar.mesh.io/userVolumeMount', '[{"name": "a", "mountPath": "a"}]', /with a name and a mountPath/],
  ['sidecar.mesh.io/userVolume', `"${'a'.repeat(40_000)}"`, /expected at most 32768 characters/],
  ['readiness.status.sidecar.mesh.io/periodSeconds', '0', /expected a whole number from 1/],
  ['readiness.status.sidecar.mesh.io/initialDelaySeconds', '1.5', /expected a whole number from 0/],
  ['proxy.mesh.io/config', 'drainDuration: soon', /drainDuration: expected/],
  ['proxy.mesh.io/config', 'discoverAddress: a:1', /discoverAddress/],
  ['proxy.mesh.io/config', 'a: [', /expected a proxy configuration in YAML or JSON/],
  ['proxy.mesh.io/config', 'a: &x 1\nb: *x', /expected a proxy configuration in YAML or JSON/],
  ['proxy.mesh.io/config', '- a', /expected a proxy configuration in YAML or JSON/],
  ['prometheus.mesh.io/path', 'metrics', /expected a path that begins with \//],
  ['sidecar.mesh.io/userVolume', `[{"name":"a","b":${'['.repeat(5000)}${']'.repeat(5000)}}]`, /at most 32 levels/],
  ['proxy.mesh.io/config', `tracing: {a: ${'['.repeat(40)}${']'.repeat(40)}}`, /expected at most 32 levels/],
  ['proxy.mesh.io/config', '['.repeat(16_000), /expected at most 32 levels/],
  ['proxy.mesh.io/config', `{${'a'.repeat(20_000)}}`, /expected at most 16384 characters/],
  [
    'proxy.mesh.io/config',
    `proxyMetadata: {${Array.from({ length: 257 }, (_, index) => `A${index}: ""`).join(', ')}}`,
    /proxyMetadata: expected at most 256 variables, got 257/,
  ],
  ['inject.mesh.io/templates', ' , ', /expected names of templates, separated by commas, got " , "/],
  ['sidecar.mesh.io/inject', 'maybe', /expected true or false, got "maybe"/],
];

for (const [name, text, why] of REFUSED)
  test(`${name} refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
    const line = refusal(name, text);
    assert.ok(line.startsWith(`metadata.annotations[${name}]: `), line);
    assert.match(line, why);
    assert.doesNotMatch(line, /\n/);
  });

const WARNINGS: readonly (readonly [name: string, warning: RegExp])[] = [
  ['sidecar.istio.io/proxyCpu', /^metadata.annotations\[sidecar.istio.io\/proxyCpu\]: unknown, did you mean .*CPU\?$/],
  ['sidecar.mesh.io/somethingElseEntirely', /: unknown, and ignored$/],
  ['traffic.sidecar.istio.io/excludeInterfaces', /: no effect in this version: /],
];

for (const [name, warning] of WARNINGS)
  test(`the annotation ${name} causes a warning`, () => {
    const { options, warnings } = read({ [name]: 'x' });
    assert.deepEqual(options, {});
    assert.equal(warnings.length, 1);
    assert.match(String(warnings[0]), warning);
  });

test('annotations of other domains, and those that injection writes, cause no warning', () => {
  const names = ['example.com/sidecar', 'sidecar.mesh.io/status', 'networking.istio.io/exportTo', 'constructor', '/'];
  assert.deepEqual(read(Object.fromEntries(names.map((name) => [name, 'x']))).warnings, []);
});

test('a name that is read as a label only causes a warning as an annotation', () => {
  const { warnings } = read({}, { 'sidecar.mesh.io/logLevel': 'debug' });
  assert.match(String(warnings), /^metadata.labels\[.*\]: no effect: expected as an annotation$/);
});

test('each of ten unknown names causes a warning, and all others cause one together', () => {
  const annotations = Object.fromEntries(
    Array.from({ length: 20_000 }, (_, index) => [`sidecar.mesh.io/logLeve${index}`, 'x']),
  );
  const { warnings } = read(annotations);
  assert.equal(warnings.length, 11);
  assert.equal(warnings[10], 'metadata.annotations: 19990 more names are unknown or have no effect');
});

test('every name is a name of mesh.io, and none is listed twice', () => {
  const names = Object.values(ANNOTATIONS).map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  for (const name of names) assert.match(name, /(^|\.)mesh\.io\//);
});
