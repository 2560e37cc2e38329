import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../core/errors.ts';
import * as fc from '../core/testing/properties.ts';
import { compileExpression } from './compile.ts';
import { NONE, SOME, VOCABULARY } from './testing/attributes.ts';
import { EvaluationError, type Expression, LANGUAGES, type Language, type ValueType } from './types.ts';
import { isOfType } from './values.ts';

const PIECES = [
  ...['source.name', 'request.headers', 'request.size', 'connection.mtls', 'source.ip', 'request.time', 'size', 'a.b'],
  ...['"a"', "'b'", '`c`', '"20ms"', '1', '2.5', '0x1', 'true', '"\\u0041"', '"\\', '1e999', '"😀"'],
  ...['==', '!=', '<', '>=', '&&', '||', '|', '+', '-', '*', '/', '%', '!', '?', ':', 'in', '.', ','],
  ...['(', ')', '[', ']', '["a"]', 'ip(', 'match(', '.matches(', '.startsWith(', 'conditional(', 'has(', 'size('],
  ...['timestamp(', 'toLower(', '.substring(', 'pick(', 'emptyStringMap()', ' ', '\n', '#', '\u0000'],
];

const language = fc.constantFrom(...LANGUAGES);
const text = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.constantFrom(...PIECES), { maxLength: 30 }).map((all) => all.join('')) },
  fc.string({ unit: 'binary', maxLength: 60 }),
);

function compiled(written: string, of: Language): Expression | undefined {
  try {
    return compileExpression(written, { language: of, vocabulary: VOCABULARY });
  } catch (error) {
    assert.ok(error instanceof CtlError && error.code === 'invalid_argument', String(error));
    assert.match(error.message, /^column \d+: [^\n]+$/);
    return undefined;
  }
}

test('any string is compiled or refused with one line, and evaluation gives a value of its type or one error', () => {
  fc.assert(
    fc.property(text, language, (written, of) => {
      const expression = compiled(written, of);
      if (expression === undefined) return;
      for (const attributes of [SOME, NONE]) {
        try {
          assert.ok(isOfType(expression.type, expression.evaluate(attributes)));
        } catch (error) {
          assert.ok(error instanceof EvaluationError, String(error));
        }
      }
    }),
    { numRuns: 3000 },
  );
});

/** Expressions of a type, and what they read when all attributes are present. */
const { typed } = fc.letrec<{ bool: string; int: string; string: string; typed: [ValueType, string] }>((tie) => ({
  bool: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('true', 'connection.mtls', '(source.name == "front")'),
    fc.tuple(tie('bool'), fc.constantFrom('&&', '||', '=='), tie('bool')).map(([a, op, b]) => `(${a} ${op} ${b})`),
    fc.tuple(tie('int'), fc.constantFrom('<', '>=', '!='), tie('int')).map(([a, op, b]) => `(${a} ${op} ${b})`),
    fc.tuple(tie('string'), tie('string')).map(([a, b]) => `match(${a}, ${b})`),
  ),
  int: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('1', 'request.size', 'request.size | 5'),
    fc.tuple(tie('int'), tie('int')).map(([a, b]) => `(${a} + ${b})`),
    tie('string').map((a) => `size(${a})`),
  ),
  string: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('"x"', 'source.name', 'request.headers["user-agent"]', '(source.labels["b"] | "y")'),
    fc.tuple(tie('bool'), tie('string'), tie('string')).map(([a, b, c]) => `conditional(${a}, ${b}, ${c})`),
    tie('string').map((a) => `toLower(${a})`),
  ),
  typed: fc.oneof(
    tie('bool').map((a): [ValueType, string] => ['BOOL', a]),
    tie('int').map((a): [ValueType, string] => ['INT64', a]),
    tie('string').map((a): [ValueType, string] => ['STRING', a]),
  ),
}));

test('an expression with the right types is accepted, has its type, and reads only what it says', () => {
  fc.assert(
    fc.property(typed, fc.constantFrom<Language>('CEXL', 'COMPAT'), ([type, written], of) => {
      fc.pre(written.length < 1000);
      const expression = compileExpression(written, { language: of, vocabulary: VOCABULARY });
      assert.equal(expression.type, type);
      const read = new Set<string>();
      const get = (name: string) => {
        read.add(name);
        return SOME.get(name);
      };
      assert.ok(isOfType(type, expression.evaluate({ get })));
      for (const name of read) assert.ok(expression.reads.includes(name), name);
    }),
  );
});
