import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDocument } from './check.ts';
import { UNKNOWN_FIELD } from './parsing/issues.ts';
import { parseResource } from './parsing/parse.ts';
import { MOST_WRONG } from './trimmed.ts';

function policy(spec: object): object {
  const metadata = { name: 'x', namespace: 'shop' };
  return { apiVersion: 'security.mesh.io/v1beta1', kind: 'AuthorizationPolicy', metadata, spec };
}

function many<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

const ofNamespaces = (namespaces: readonly unknown[]) => ({ from: [{ source: { namespaces } }] });

test('only the first errors of a document with very many are collected', () => {
  for (const rules of [
    [ofNamespaces(many(50_000, () => ({})))],
    [ofNamespaces([...many(1000, (index) => `n${index}`), ...many(50_000, () => 1)])],
    many(5000, () => ofNamespaces([1])),
    many(5000, (index) => ({ when: [{ key: index, values: [] }] })),
  ]) {
    const errors = checkDocument(policy({ rules }))?.errors ?? [];
    assert.ok(errors.length >= MOST_WRONG / 2 && errors.length <= 2 * MOST_WRONG, `${errors.length} errors`);
  }
});

test('the first error is named, wherever it is', () => {
  const namespaces = [...many(1000, (index) => `n${index}`), ...many(50_000, () => 1)];
  const parsed = parseResource(policy({ rules: [{}, ofNamespaces(namespaces)] }), { source: 'x' }, () => undefined);
  assert.ok('problem' in parsed);
  assert.equal(parsed.problem.field, 'spec.rules[1].from[0].source.namespaces[1000]');
  assert.match(parsed.problem.message, /^expected a string, got 1 .*\(and 99 more\)$/);
});

test('all errors of other documents are collected', () => {
  const errors = checkDocument(policy({ rules: [ofNamespaces([1, 'a', 2]), { unknown: 1 }] }))?.errors ?? [];
  assert.deepEqual(
    errors.map(({ field }) => field),
    [
      'spec.rules[1].unknown',
      'spec.rules[0].from[0].source.namespaces[0]',
      'spec.rules[0].from[0].source.namespaces[2]',
    ],
  );
});

test('very many unknown fields that may be left out are', () => {
  const route = [{ destination: { host: 'web' } }];
  const http = many(1000, (index) => ({ route, [`unknown-${index}`]: 1 }));
  const metadata = { name: 'x', namespace: 'shop' };
  const document = { apiVersion: 'networking.mesh.io/v1alpha3', kind: 'VirtualService', metadata };
  const checked = checkDocument({ ...document, spec: { hosts: ['web'], http } });
  const unknown = checked?.warnings.filter(({ message }) => message === UNKNOWN_FIELD);
  assert.deepEqual([checked?.errors.length, unknown?.length], [0, 1000]);
});
