import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDocument } from 'yaml';
import { parseYaml } from './complete-yaml.ts';

/** Code, position and message of the errors. */
const errorsIn = (text: string) =>
  parseYaml(text).document.errors.map(({ code, pos, message }) => [code, pos, message]);

test('a key that its mapping has already is an error at the second one', () => {
  for (const text of [
    'a: 1\nb: 2\na: 3\n',
    'a:\n  x: 1\n  y: 2\n  "x": 3\nb: 4\n',
    '- a: 1\n- {b: 1, c: 2, b: 3}\n',
    'b: {x: 1, x: 2}\na: 1\nb: 2\n',
    '? [1]\n: 1\n1: a\n1: b\n',
  ]) {
    const [own] = errorsIn(text);
    const [library] = parseDocument(text, { prettyErrors: false }).errors;
    assert.ok(library !== undefined);
    assert.deepEqual(own, [library.code, library.pos, library.message], text);
  }
});

test('equal keys of different mappings, and keys that only look alike, are not errors', () => {
  assert.deepEqual(errorsIn('a: {x: 1}\nb: {x: 1}\nc: &x {y: 1}\nd: *x\n1: a\n"1": b\n<<: *x\n'), []);
});

test('other errors are reported as they are', () => {
  assert.deepEqual(errorsIn('a: 1\na: [2\n')[0]?.[0], 'BAD_INDENT');
});

/** Counts how often a list is searched meanwhile. */
function searchesIn(run: () => void): number {
  const { some } = Array.prototype;
  let searches = 0;
  Array.prototype.some = function (this: unknown[], ...args) {
    searches++;
    return some.apply(this, args);
  };
  try {
    run();
    return searches;
  } finally {
    Array.prototype.some = some;
  }
}

test('the keys of a large mapping are not searched for each key', () => {
  const text = Array.from({ length: 3000 }, (_, index) => `key-${index}: value\n`).join('');
  assert.ok(searchesIn(() => parseDocument(text)) >= 3000, 'what the library does');
  const searches = searchesIn(() => assert.deepEqual(errorsIn(text), []));
  assert.ok(searches < 100, `${searches} searches`);
});
