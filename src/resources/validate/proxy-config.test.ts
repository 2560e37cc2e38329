import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import { checkDocument, documentLimits, parseMeshConfig, parseProxyConfig } from '../index.ts';
import { mesh, problemOf, read } from '../testing/parsed.ts';

test('ProxyConfig is accepted under all names of its group', () => {
  for (const api of ['networking.mesh.io/v1alpha3', 'networking.istio.io/v1beta1']) {
    const { kind, content } = read(
      mesh('ProxyConfig', '{selector: {matchLabels: {istio: x}}, concurrency: 0, image: {imageType: debug}}', api),
    );
    assert.deepEqual(
      [kind, content],
      ['ProxyConfig', { selector: { matchLabels: { mesh: 'x' } }, concurrency: 0, image: { imageType: 'debug' } }],
    );
  }
});

test('a wrong value of ProxyConfig is refused with its field', () => {
  for (const [spec, field, message] of [
    ['{concurrency: -1}', 'spec.concurrency', /at least 0/],
    ['{environmentVariables: {"1A": b}}', 'spec.environmentVariables["1A"]', /name of a variable/],
    ['{environmentVariables: {A: 1}}', 'spec.environmentVariables.A', /string/],
    [`{environmentVariables: {A: "${'x'.repeat(16_384)}"}}`, 'spec.environmentVariables', /at most 16384 characters/],
    ['{image: {imageType: "a/b"}}', 'spec.image.imageType', /letters, digits/],
  ] as const) {
    const problem = problemOf(mesh('ProxyConfig', spec));
    assert.equal(problem.field, field);
    assert.match(problem.message, message);
  }
});

test('a selector in the root namespace is reported, because it does not select Pods of other namespaces', () => {
  const document = (namespace: string, spec: string) => ({
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'ProxyConfig',
    metadata: { name: 'x', namespace },
    spec: parse(spec) as unknown,
  });
  const warnings = (namespace: string, spec: string) =>
    checkDocument(document(namespace, spec), documentLimits(1, true, 'mesh-system'))?.warnings.map(
      ({ field, message }) => `${field}: ${message}`,
    );
  const selecting = '{selector: {matchLabels: {app: web}}}';
  assert.deepEqual(warnings('mesh-system', selecting), [
    'spec.selector: it selects Pods of the root namespace only: without a selector, a document is for the whole mesh',
  ]);
  assert.deepEqual([warnings('shop', selecting), warnings('mesh-system', '{concurrency: 1}')], [[], []]);
});

test('an image type is checked in the mesh configuration and in annotations, too', () => {
  const image = { imageType: '../evil' };
  for (const [parsed, path] of [
    [parseProxyConfig({ image }), ['image', 'imageType']],
    [parseMeshConfig({ defaultConfig: { image } }), ['defaultConfig', 'image', 'imageType']],
  ] as const) {
    assert.ok('problem' in parsed);
    assert.deepEqual(parsed.problem.path, path);
    assert.match(parsed.problem.message, /expected at most 63 letters, digits, _, \. and -, got "\.\.\/evil"/);
  }
  assert.ok('value' in parseProxyConfig({ image: { imageType: '' } }));
});
