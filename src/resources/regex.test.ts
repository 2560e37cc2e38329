import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import * as fc from '../core/testing/properties.ts';
import { MAX_REGEX_PROGRAM, readRegex } from '../regex/check.ts';
import { compileRegex } from '../regex/compile.ts';
import { checkDocument } from './check.ts';
import { documentLimits } from './limits.ts';
import { REGEXES } from './testing/regexes.ts';

const { RE2JS } = createRequire(import.meta.url)('re2js') as typeof import('re2js');

const problem = (pattern: string): string => {
  const read = readRegex(pattern);
  return 'problem' in read ? read.problem : '';
};

const ACCEPTED = [
  ...['/api/v[0-9]+/users/.*', '^/a|b$', '(?i)web', '(?P<id>\\d+)', 'a{2,}?b{3}', 'a{,2}', '[]a]', '[[:alpha:]_-]'],
  ...['\\Qa*\\E+', '\\x41\\x{e9}\\101', 'é+', '\\pL\\p{Greek}\\P{Lu}', '(?s:.)(?-s:.)', '()', 'a||b', '(?:(?:a*)*)*'],
  ...['x{1000}', '(x{10}){100}', '\\/\\-\\_', '{a}', 'a]', '\\bweb\\b'],
];

for (const pattern of ACCEPTED) test(`${pattern} is accepted`, () => assert.equal(problem(pattern), ''));

const REFUSED: readonly (readonly [pattern: string, message: RegExp])[] = [
  ['', /not empty/],
  ['a'.repeat(1025), /at most 1024 characters, got 1025/],
  ['(a', /\(RE2\): missing closing \)/],
  ['a)', /unexpected \)/],
  ['[a', /missing closing \]/],
  ['[z-a]', /invalid character class range/],
  ['*a', /missing argument to repetition operator \*/],
  ['a**', /invalid nested repetition operator \*/],
  ['a{1001}', /invalid repeat count \{1001\}/],
  ['(a{10}){101}', /invalid repeat count \{101\}/],
  ['a{5,2}', /invalid repeat count/],
  ['(?=a)', /invalid or unsupported Perl syntax/],
  ['\\8', /invalid escape sequence \\8/],
  ['a\\', /trailing backslash/],
  ['\\p{Nope}', /invalid character class range \\p\{Nope\}/],
  ['\\x{100}', /expected the character itself instead of its code/],
  ['(?P<n>a)(?P<n>b)', /duplicate capture group name n/],
  [`${'('.repeat(251)}a${')'.repeat(251)}`, /nests too deeply/],
  ['(\\w{30}){33}\\pL{30}', new RegExp(`its program has \\d+ steps, at most ${MAX_REGEX_PROGRAM}`)],
];

for (const [pattern, message] of REFUSED)
  test(`${pattern.slice(0, 40) || 'an empty expression'} is refused`, () => assert.match(problem(pattern), message));

test('property: an expression that is accepted is one for the library that compiles those about versions', () => {
  fc.assert(
    fc.property(REGEXES, (pattern) => {
      const read = readRegex(pattern);
      if (!('problem' in read) && read.size <= 2000) RE2JS.compile(pattern);
    }),
    { numRuns: 2000 },
  );
});

test('property: any text is read without a crash', () => {
  const characters = fc.constantFrom(...'()[]{}|*+?^$.\\-:<>PpxQE01,ai é€😀\ud800'.split(''));
  fc.assert(
    fc.property(fc.string({ unit: characters }), (text) => void readRegex(text)),
    { numRuns: 3000 },
  );
});

test('the size of a program grows as its repetitions multiply', () => {
  const size = (pattern: string): number => {
    const read = readRegex(pattern);
    return 'problem' in read ? assert.fail(read.problem) : read.size;
  };
  assert.ok(size('(?:a{20}){30}') >= 600 && size('(?:a{20}){30}') < 1200);
  assert.ok(size('c{1,900}') >= 900 && size('c{1,900}') < 3000);
  assert.equal(size('a'.repeat(1000)), 1006);
});

/** The expressions that are compiled meanwhile. */
function compiledIn(run: () => void): string[] {
  const { compile } = RE2JS;
  const patterns: string[] = [];
  RE2JS.compile = (pattern, ...flags) => {
    patterns.push(pattern);
    return compile.call(RE2JS, pattern, ...flags);
  };
  try {
    run();
    return patterns;
  } finally {
    RE2JS.compile = compile;
  }
}

test('the expressions of routes are not compiled', () => {
  const match = Array.from({ length: 3000 }, (_, index) => ({ uri: { regex: `(a|b)*c{1,900}${index}` } }));
  const document = {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'VirtualService',
    metadata: { name: 'web', namespace: 'shop' },
    spec: { hosts: ['web'], http: [{ match, route: [{ destination: { host: 'web' } }] }] },
  };
  const limits = documentLimits(100);
  assert.deepEqual(
    compiledIn(() => assert.deepEqual(checkDocument(document, limits)?.errors, [])),
    [],
  );
});

test('an expression about versions is compiled once, and matched once for each version', () => {
  const matched: boolean[] = [];
  const patterns = compiledIn(() => {
    for (const version of ['1.7.8', '1.7.8', '1.8.0']) matched.push(compileRegex('^1\\.7\\.')(version));
  });
  assert.deepEqual(patterns, ['^1\\.7\\.']);
  assert.deepEqual(matched, [true, true, false]);
});

test('expressions that were used last are kept', () => {
  compileRegex('^kept$');
  const others = Array.from({ length: 999 }, (_, index) => `^other-${index}$`);
  const again = (): string[] => compiledIn(() => void compileRegex('^kept$'));
  others.forEach(compileRegex);
  assert.deepEqual(again(), []);
  [...others, '^one-more$'].forEach(compileRegex);
  assert.deepEqual(again(), ['^kept$']);
});

test('a text that is longer than any version is not matched', () => {
  assert.deepEqual(['a', 'a'.repeat(129)].map(compileRegex('a')), [true, false]);
});
