import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { JsonPatchOperation } from '../types.ts';
import { jsonPatch } from './json-patch.ts';

type Container = Record<string, unknown> | unknown[];

/** RFC 6902, as far as the patches use it. */
function applied(document: unknown, operations: readonly JsonPatchOperation[]): unknown {
  const root: Container = { '': structuredClone(document) };
  for (const operation of operations) {
    const steps = ['', ...operation.path.split('/').slice(1)].map((text) =>
      text.replaceAll('~1', '/').replaceAll('~0', '~'),
    );
    const last = steps.pop() ?? '';
    const parent = steps.reduce((at: unknown, name) => (at as Record<string, unknown>)[name], root) as Container;
    if (Array.isArray(parent)) {
      const index = Number(last);
      assert.ok(index <= parent.length - (operation.op === 'add' ? 0 : 1), `${operation.path} is in the list`);
      if (operation.op === 'add') parent.splice(index, 0, operation.value);
      else if (operation.op === 'remove') parent.splice(index, 1);
      else parent[index] = operation.value;
    } else {
      assert.equal(Object.hasOwn(parent, last), operation.op !== 'add', `${operation.op} ${operation.path}`);
      if (operation.op === 'remove') delete parent[last];
      else Object.defineProperty(parent, last, { value: operation.value, enumerable: true, configurable: true });
    }
  }
  return root[''];
}

const named = fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd'), value: fc.jsonValue({ maxDepth: 1 }) });
const documents = fc
  .oneof(
    fc.jsonValue(),
    fc.record({ spec: fc.record({ containers: fc.array(named), args: fc.array(fc.constantFrom(1, 2, '1', null)) }) }),
  )
  .map((document): unknown => JSON.parse(JSON.stringify(document)));

test('a patch turns one document into the other', () => {
  fc.assert(
    fc.property(documents, documents, (from, to) => {
      assert.deepEqual(applied(from, jsonPatch(from, to)), to);
    }),
    { numRuns: 2_000 },
  );
});

test('keys with / and ~ are escaped', () => {
  const patch = jsonPatch({ annotations: { 'a/b': '1' } }, { annotations: { 'a/b': '2', '~x/~1': '3' } });
  assert.deepEqual(patch, [
    { op: 'replace', path: '/annotations/a~1b', value: '2' },
    { op: 'add', path: '/annotations/~0x~1~01', value: '3' },
  ]);
});

test('containers before and after others, and their variables, are single operations', () => {
  const app = { name: 'app', image: 'app:1' };
  const db = { name: 'db', env: [{ name: 'A', value: '1' }] };
  const from = { containers: [app, db], volumes: [{ name: 'data' }] };
  const to = {
    containers: [{ name: 'first' }, app, { name: 'db', env: [...db.env, { name: 'B', value: '2' }] }, { name: 'last' }],
    volumes: [{ name: 'data' }, { name: 'token' }],
  };
  assert.deepEqual(
    jsonPatch(from, to).map(({ op, path }) => `${op} ${path}`),
    ['add /containers/0', 'add /containers/2/env/1', 'add /containers/3', 'add /volumes/1'],
  );
});

test('equal documents need no patch', () => {
  const from = { labels: { a: '1' }, list: [{ name: 'x', deep: [1, { y: 2 }] }, [1], null] };
  assert.deepEqual(jsonPatch(from, structuredClone(from)), []);
});

test('the number of comparisons grows with the list, not with its square', () => {
  let reads = 0;
  const counted = (name: string): object =>
    Object.defineProperty({}, 'name', {
      enumerable: true,
      get: () => {
        reads++;
        return name;
      },
    });
  const many = Array.from({ length: 10_000 }, (_, index) => `c${index}`);
  const operations = jsonPatch({ list: many.map(counted) }, { list: ['new', ...many].map(counted) });
  assert.equal(operations.length, 1);
  assert.ok(reads < 100_000, `${reads} reads`);
});
