/**
 * Headers. A request may have several of one name, and Envoy's RBAC compares each by itself: one match is enough.
 *
 * Read widely, each element of a list separated by commas is compared as well: that is what several headers become on their way
 * through other proxies. Read narrowly, there must be no other header of that name that has none of the values: what an application
 * takes for its value is not known, and a client may have put one of its own before that of a proxy.
 */
import { allOf, anyOf, type Condition, leaf, not, type PrincipalLeaf } from './condition.ts';
import type { Reading } from './operation.ts';
import { escapeRegex, type Pattern, patternOf, regexMatcher, type StringMatcher, stringMatcher } from './text.ts';

type Text = Exclude<Pattern, { kind: 'any' }>;

export function headers(name: string, values: readonly string[], reading: Reading): Condition<PrincipalLeaf> {
  const patterns = values.map(patternOf);
  const texts = patterns.filter((pattern) => pattern.kind !== 'any');
  if (texts.length < patterns.length) return leaf({ header: { name, presentMatch: true } });
  const has = (stringMatch: StringMatcher) => leaf<PrincipalLeaf>({ header: { name, stringMatch } });
  const some = anyOf(texts.map((pattern) => has(stringMatcher(pattern))));
  if (reading === 'wide') return anyOf([some, ...texts.map((pattern) => has(regexMatcher(elementRegex(pattern))))]);
  const other = otherThan(texts);
  return other === undefined ? some : allOf([some, not(has(regexMatcher(other)))]);
}

/** A list separated by commas, one element of which is so. */
function elementRegex({ kind, text }: Text): string {
  const before = kind === 'suffix' ? '.*' : '(.*,)?[ \\t]*';
  const after = kind === 'prefix' ? '.*' : '[ \\t]*(,.*)?';
  return `(?s)${before}${escapeRegex(text)}${after}`;
}

/** How deep an expression may nest: RE2 takes 1000. Of longer texts, it is enough to see whether they begin otherwise. */
const MAX_DEPTH = 200;

/** Texts that begin alike share their beginnings. */
interface Trie {
  readonly next: Map<string, Trie>;
  /** Whether the text may end here, and whether anything may follow. */
  ends: boolean;
  goesOn: boolean;
}

/**
 * A regular expression for every text that is none of these. Undefined for suffixes beside others: there is no short one then.
 * RE2 has no word for "other than", so that it is spelled out: the first letter is another one, or it is the same and the rest is
 * another.
 */
function otherThan(patterns: readonly Text[]): string | undefined {
  const backwards = patterns.every(({ kind }) => kind === 'suffix');
  if (!backwards && patterns.some(({ kind }) => kind === 'suffix')) return undefined;
  const root: Trie = { next: new Map(), ends: false, goesOn: false };
  for (const { kind, text } of patterns) {
    let at = root;
    // Envoy's RE2 compares bytes; their values are written, so that no letter is cut in two.
    const bytes = backwards ? bytesOf(text).reverse() : bytesOf(text);
    for (const byte of bytes.slice(0, MAX_DEPTH)) {
      const next = at.next.get(byte) ?? { next: new Map(), ends: false, goesOn: false };
      at.next.set(byte, next);
      at = next;
    }
    if (kind === 'exact' && bytes.length <= MAX_DEPTH) at.ends = true;
    else at.goesOn = true;
  }
  return `(?s)${outside(root, backwards) ?? '[^\\x00-\\xff]'}`;
}

/** What leads out of a trie; undefined when nothing does. */
function outside({ next, ends, goesOn }: Trie, backwards: boolean): string | undefined {
  if (goesOn) return undefined;
  const joined = (first: string, rest: string) => (backwards ? `${rest}${first}` : `${first}${rest}`);
  const ways = [joined(next.size === 0 ? '.' : `[^${[...next.keys()].join('')}]`, '.*')];
  for (const [byte, trie] of next) {
    const rest = outside(trie, backwards);
    if (rest !== undefined) ways.push(joined(byte, rest));
  }
  return `(${ways.join('|')})${ends ? '' : '?'}`;
}

/** Letters and digits as they are, everything else by its code, so that it means itself also within brackets. */
function bytesOf(text: string): string[] {
  return [...new TextEncoder().encode(text)].map((byte) => {
    const letter = String.fromCharCode(byte);
    return /[0-9A-Za-z]/.test(letter) ? letter : `\\x${byte.toString(16).padStart(2, '0')}`;
  });
}
