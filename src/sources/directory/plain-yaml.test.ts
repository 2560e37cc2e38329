import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDocument, stringify } from 'yaml';
import * as fc from '../../core/testing/properties.ts';
import { readPlainYaml } from './plain-yaml.ts';

/** The complete parser's result for a text; `undefined` for an error. */
function complete(text: string): { value: unknown } | undefined {
  const document = parseDocument(text, { merge: true, prettyErrors: false });
  return document.errors.length > 0 ? undefined : { value: document.toJS() };
}

function agrees(text: string): boolean {
  const plain = readPlainYaml(text);
  if (plain === undefined) return true;
  assert.deepEqual({ value: plain.value }, complete(text), text);
  return true;
}

test('reads what tools write', () => {
  const text =
    '---\n# comment\napiVersion: v1\nspec:\n  hosts:\n  - a.com\n  -   b: 1\n      c: "x"\n  - - d\n  flow: {a: [1, x, {}], "b": []}\n  empty:\nlast: 1.5s\n';
  assert.deepEqual(readPlainYaml(text), {
    value: {
      apiVersion: 'v1',
      spec: { hosts: ['a.com', { b: 1, c: 'x' }, ['d']], flow: { a: [1, 'x', {}], b: [] }, empty: null },
      last: '1.5s',
    },
    line: 2,
  });
  assert.ok(agrees(text));
});

test('reads addresses and versions, which are not numbers', () => {
  const text = 'a: 10.0.0.1\nb: [10.200.0.0, 1.2.3]\nc: {v: 1.22.333.4444.5}\n10.0.0.1: x';
  assert.equal(readPlainYaml(text), undefined, 'such keys are left to the complete parser');
  const values = text.slice(0, text.lastIndexOf('\n'));
  assert.deepEqual(readPlainYaml(values)?.value, {
    a: '10.0.0.1',
    b: ['10.200.0.0', '1.2.3'],
    c: { v: '1.22.333.4444.5' },
  });
  assert.ok(agrees(values));
});

test('reads items of all sorts', () => {
  const text =
    '- {a: b, c: [d]}\n- [e]\n- "f: g"\n- "h: i": j\n- host:8080\n- k: 1\n  l: -2\n- 5xx\n- -0.5s\n- http://x/\n- GET /a b\n';
  assert.deepEqual(readPlainYaml(text)?.value, [
    { a: 'b', c: ['d'] },
    ['e'],
    'f: g',
    { 'h: i': 'j' },
    'host:8080',
    { k: 1, l: -2 },
    '5xx',
    '-0.5s',
    'http://x/',
    'GET /a b',
  ]);
  assert.ok(agrees(text));
  for (const other of ['- a b: c', '- a b:', '- *a: b', '- 10.0.0.1: b', '- {a: b}: c', '- "a" b: c']) {
    assert.equal(readPlainYaml(other), undefined, other);
  }
});

test('leaves everything that is not plain, and everything wrong, to the complete parser', () => {
  const others = [
    'a: [1',
    'a: [1] 2',
    'a: [b,]',
    'a: {b:1}',
    'a: {b}',
    'a: [b: 1]',
    'a: [-]',
    'a: {b: 1, b: 2}',
    'a: |\n  b',
    'a: &x b',
    'a: *x',
    'a: !!str 1',
    'a: b # c',
    'a: 1.5',
    'a: 0x1f',
    'a: ~',
    'a: "\\n"',
    "a: 'it''s'",
    'a: b\n  c',
    'a: b: c',
    'a: 1\na: 2',
    'a:\n  b: 1\n c: 2',
    '<<: 1',
    '? a\n: b',
    'just text',
    'a: yes',
    'a: ä',
    'a:\tb',
    'true: 1',
    '__proto__: 1',
    'a: b\n...\n',
    '%YAML 1.2\n---\na: b',
  ];
  for (const text of others) assert.equal(readPlainYaml(text), undefined, text);
});

test('property: whatever it reads, the complete parser reads the same', () => {
  const token = fc.constantFrom(
    'a',
    'b',
    'key',
    '- ',
    '-',
    ':',
    ': ',
    ' ',
    '  ',
    '\n',
    '\n  ',
    '\n- ',
    '1',
    '-1',
    '0',
    '007',
    '1.0',
    '1e3',
    'true',
    'null',
    '~',
    '"q"',
    "'s'",
    '{}',
    '[]',
    '#',
    ' # c',
    '---',
    '\n---\n',
    '...',
    '|',
    '>',
    '&a',
    '*a',
    '!t',
    '<<',
    '=',
    '@',
    '%',
    ',',
    '10.0.0.1',
    '1m0s',
    '\n\n',
    '_',
    '.',
    '/',
    '+1',
    '-a',
  );
  fc.assert(
    fc.property(fc.array(token, { maxLength: 14 }), (tokens) => agrees(tokens.join(''))),
    { numRuns: 2000 },
  );
  const inFlow = fc.array(token, { maxLength: 8 });
  fc.assert(
    fc.property(inFlow, (tokens) => agrees(`a: {b: ${tokens.join('')}}`) && agrees(`- [b, ${tokens.join('')}]`)),
    { numRuns: 2000 },
  );
  const key = fc.constantFrom('a', 'app.kubernetes.io/name', '80', 'x-y', 'true', '');
  const leaf = fc.oneof(fc.string({ maxLength: 8 }), fc.integer(), fc.boolean(), fc.double(), fc.constant(null));
  const tree = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 4 },
      leaf,
      fc.array(tie('node'), { maxLength: 3 }),
      fc.dictionary(key, tie('node'), { maxKeys: 3 }),
    ),
  })).node;
  fc.assert(
    fc.property(tree, (value) => agrees(stringify(value))),
    { numRuns: 500 },
  );
});
