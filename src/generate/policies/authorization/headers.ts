/**
 * Headers. A request may have several of one name, and Envoy's RBAC compares each by itself: one match is enough.
 *
 * Read widely, each element of a list separated by commas is compared as well: that is what several headers become on
 * their way through other proxies. Read narrowly, there must be no other header of that name that has none of the
 * values: what an application takes for its value is not known, and a client may have put one of its own before that of
 * a proxy.
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
  const some = (of: readonly Text[]) => anyOf(of.map((pattern) => has(stringMatcher(pattern))));
  if (reading === 'wide')
    return anyOf([some(texts), ...texts.map((pattern) => has(regexMatcher(elementRegex(pattern))))]);
  // What is wrong with both beginnings and ends there is no short expression for: either all have the one, or all the
  // other.
  const kinds = [texts.filter(({ kind }) => kind !== 'suffix'), texts.filter(({ kind }) => kind === 'suffix')];
  return anyOf(kinds.map((of) => allOf([some(of), ...othersThan(of).map((regex) => not(has(regexMatcher(regex))))])));
}

/** A list separated by commas, one element of which is so. */
function elementRegex({ kind, text }: Text): string {
  const before = kind === 'suffix' ? '.*' : '(.*,)?[ \\t]*';
  const after = kind === 'prefix' ? '.*' : '[ \\t]*(,.*)?';
  return `(?s)${before}${escapeRegex(text)}${after}`;
}

/**
 * How deep an expression may nest: RE2 takes 1000. Of longer texts, it is enough to see whether they begin otherwise.
 */
const MAX_DEPTH = 200;

/**
 * Nodes of a trie in one expression. Each is some nine instructions for RE2, of which Envoy takes 32,768 (as the
 * agent's bootstrap has it): with one expression more than that it refuses the whole listener.
 */
const MAX_NODES = 1500;

/** Texts that begin alike share their beginnings. */
interface Trie {
  readonly next: Map<string, Trie>;
  /** Whether the text may end here, and whether anything may follow. */
  ends: boolean;
  goesOn: boolean;
  /** Itself and all below. */
  nodes: number;
}

const leafNode = (): Trie => ({ next: new Map(), ends: false, goesOn: false, nodes: 1 });

/**
 * Regular expressions of which every text that is none of these matches one: all of the patterns are suffixes, or none
 * is. RE2 has no word for "other than", so that it is spelled out: the first letter is another one, or it is the same
 * and the rest is another.
 */
function othersThan(patterns: readonly Text[]): string[] {
  const backwards = patterns.every(({ kind }) => kind === 'suffix');
  const root = leafNode();
  for (const { kind, text } of patterns) {
    const path = [root];
    let at = root;
    // Envoy's RE2 compares bytes; their values are written, so that no letter is cut in two.
    const bytes = backwards ? bytesOf(text).reverse() : bytesOf(text);
    for (const byte of bytes.slice(0, MAX_DEPTH)) {
      const known = at.next.get(byte);
      const next = known ?? leafNode();
      if (known === undefined) for (const above of path) above.nodes++;
      at.next.set(byte, next);
      at = next;
      path.push(at);
    }
    if (kind === 'exact' && bytes.length <= MAX_DEPTH) at.ends = true;
    else at.goesOn = true;
  }
  return waysOut(root, backwards, '').map((regex) => `(?s)${regex}`);
}

/** What leads out of a trie, which texts reach by `begun`, in as many expressions as it takes. */
function waysOut(trie: Trie, backwards: boolean, begun: string): string[] {
  const joined = (first: string, rest: string) => (backwards ? `${rest}${first}` : `${first}${rest}`);
  if (trie.nodes <= MAX_NODES) {
    const regex = outside(trie, backwards);
    return regex === undefined ? [] : [joined(begun, regex)];
  }
  if (trie.goesOn) return [];
  const here = `(${atOnce(trie, backwards)})${trie.ends ? '' : '?'}`;
  return [
    joined(begun, here),
    ...[...trie.next].flatMap(([byte, next]) => waysOut(next, backwards, joined(begun, byte))),
  ];
}

/** Another letter than any of those that go on, and whatever follows. */
function atOnce({ next }: Trie, backwards: boolean): string {
  const letter = next.size === 0 ? '.' : `[^${[...next.keys()].join('')}]`;
  return backwards ? `.*${letter}` : `${letter}.*`;
}

/** What leads out of a trie; undefined when nothing does. */
function outside(trie: Trie, backwards: boolean): string | undefined {
  const { next, ends, goesOn } = trie;
  if (goesOn) return undefined;
  const joined = (first: string, rest: string) => (backwards ? `${rest}${first}` : `${first}${rest}`);
  const ways = [atOnce(trie, backwards)];
  for (const [byte, below] of next) {
    const rest = outside(below, backwards);
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
