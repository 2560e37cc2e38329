import assert from 'node:assert/strict';
import { test } from 'node:test';
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
