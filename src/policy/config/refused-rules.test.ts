/** Rules that are not compiled as they were written: substitutes of refused ones, and those beyond the limit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { documentsOf, ROOT } from '../testing/compiled.ts';
import type { PolicyConfig } from '../types.ts';
import { compilePolicy } from './compile.ts';

const PARTS = `
kind: handler
metadata: { name: lines, namespace: shop }
spec: { compiledAdapter: stdio }
---
kind: instance
metadata: { name: line, namespace: shop }
spec: { compiledTemplate: logentry, params: { variables: { a: request.path } } }
---
`;
const rule = (name: string, spec: string) =>
  `kind: rule\nmetadata: { name: ${name}, namespace: shop }\nspec: ${spec}\n`;

const compiled = (text: string, isSubstitute = false): PolicyConfig => {
  const documents = documentsOf(text).map((each) =>
    isSubstitute && each.kind === 'rule' ? { ...each, substitute: true as const } : each,
  );
  return compilePolicy(documents, { language: undefined, configNamespace: ROOT });
};

test('the substitute of a rule refuses the requests that its condition matches, unless it only records', () => {
  const unknown = '{ match: request.path == "/x", actions: [{ handler: "~", instances: ["~"] }] }';
  const [found, ...others] = compiled(PARTS + rule('r', unknown), true).rules;
  assert.deepEqual(others, []);
  assert.match(found?.broken ?? '', /the document is refused/);
  assert.deepEqual([found?.namespace, found?.match?.reads], ['shop', ['request.path']]);
  assert.deepEqual(compiled(PARTS + rule('r', '{ actions: [{ handler: lines, instances: [line] }] }'), true).rules, []);
});

test('rules beyond the limit of their namespace refuse its requests, unless they only record', () => {
  const many = (last: string) => {
    const rules = Array.from({ length: 1_000 }, (_, at) =>
      rule(`a${at}`, '{ actions: [{ handler: lines, instances: [line] }] }'),
    );
    return PARTS + [...rules, rule('b', last), rule('c', last)].join('---\n');
  };
  const denied = compiled(many('{ match: a.b == "c", actions: [{ handler: h, instances: [i] }] }'));
  assert.deepEqual(
    denied.rules.filter(({ broken }) => broken !== undefined),
    [
      {
        id: 'b.shop',
        namespace: 'shop',
        matchesConnections: true,
        broken: 'its namespace has too many rules',
        actions: [],
        requestHeaders: [],
        responseHeaders: [],
      },
    ],
  );
  assert.equal(compiled(many('{ actions: [{ handler: lines, instances: [line] }] }')).rules.length, 1_000);
});

test('a rule whose handler is deleted refuses requests, unless it only records', () => {
  const decides = '{ actions: [{ handler: gone, instances: [unknown] }] }';
  assert.match(compiled(PARTS + rule('r', decides)).rules[0]?.broken ?? '', /handler/);
  assert.deepEqual(compiled(PARTS + rule('r', '{ actions: [{ handler: gone, instances: [line] }] }')).rules, []);
});
