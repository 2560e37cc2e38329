/** Random regular expressions for tests, most of them valid in RE2. */
import * as fc from '../../core/testing/properties.ts';

const ATOMS = [
  ...['a', 'k', 'Z', '0', '-', '/', ' ', 'é', 'я', '€', '.', '^', '$', 'ab', ']', '()', '(?:)', '(?:|a)', '(a*)'],
  ...['\\d', '\\W', '\\S', '\\w', '\\pL', '\\PN', '\\p{Greek}', '\\p{^Lu}', '\\b', '\\B', '\\A', '\\z'],
  ...['\\x41', '\\x{e9}', '\\0', '\\12', '\\n', '\\.', '\\/', '\\_', '\\Qa.b\\E'],
  ...['[a-z]', '[^a-z]', '[]a]', '[^]a]', '[a-]', '[\\d-x]', '[[:alpha:]]', '[[:^digit:]_]', '[a-c\\pL]'],
  ...['[^\\x00-\\xff]', '[é-я]', '[aceg]', '[^\\W\\D]'],
];
/** Those that are refused, mostly. */
const ODD_ATOMS = [
  '{',
  '\\p{Nope}',
  '\\Z',
  '\\x{100}',
  '\\8',
  '\\C',
  '\\Qx*',
  '[[:no:]]',
  '[a',
  '[z-a]',
  '(?-)',
  '(?=a)',
  '**',
];
const GROUPS = ['(', '(', '(?:', '(?:', '(?i:', '(?-i:', '(?s:', '(?im-s:', '(?P<n>', '(?<m>'];
const REPEATS = ['*', '+', '?', '{2}', '{3,}', '{0,4}', '{0}', '{10}', '{1,30}', '{100}', '{,3}'];
const ODD_REPEATS = ['{1000}', '{1001}', '{5,2}', '{02}', '*+'];
const FLAGS = ['', '', '', '', '(?i)', '(?U)'];

/** Mostly one of the former, seldom one of the latter: one of these is enough to refuse an expression. */
function mostly(usual: readonly string[], odd: readonly string[]): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 50, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  );
}

const repeat = fc.oneof(
  { weight: 5, arbitrary: fc.constant('') },
  { weight: 2, arbitrary: mostly(REPEATS, ODD_REPEATS) },
  { weight: 1, arbitrary: mostly(REPEATS, ODD_REPEATS).map((operator) => `${operator}?`) },
);

const { pattern } = fc.letrec<{ pattern: string; item: string }>((tie) => ({
  item: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 4, arbitrary: mostly(ATOMS, ODD_ATOMS) },
    {
      weight: 2,
      arbitrary: fc.tuple(fc.constantFrom(...GROUPS), tie('pattern')).map(([open, inner]) => `${open}${inner})`),
    },
    { weight: 1, arbitrary: fc.tuple(tie('pattern'), tie('pattern')).map((both) => `(?:${both.join('|')})`) },
  ),
  pattern: fc
    .tuple(fc.constantFrom(...FLAGS), fc.array(fc.tuple(tie('item'), repeat), { minLength: 1, maxLength: 5 }))
    .map(([flags, items]) => flags + items.map((both) => both.join('')).join('')),
}));

export const REGEXES: fc.Arbitrary<string> = pattern.filter(({ length }) => length <= 300);
