/**
 * Matchers of headers. A request may have several headers with the same name, and Envoy's RBAC compares each
 * separately: one match is enough.
 *
 * A loose match also compares each element of a comma-separated list, because proxies join several headers in this way.
 * A strict match requires that no other header with this name lacks the values: it is unknown which one an application
 * reads, and a client may have sent its own before that of a proxy.
 */
import { allOf, anyOf, type Condition, leaf, not, type PrincipalLeaf } from './condition.ts';
import type { Reading } from './operation.ts';
import { escapeRegex, type Pattern, parsePattern, regexMatcher, type StringMatcher, stringMatcher } from './text.ts';

type Text = Exclude<Pattern, { kind: 'any' }>;

export function headers(name: string, values: readonly string[], reading: Reading): Condition<PrincipalLeaf> {
  const patterns = values.map(parsePattern);
  const texts = patterns.filter((pattern) => pattern.kind !== 'any');
  if (texts.length < patterns.length) return leaf({ header: { name, presentMatch: true } });
  const has = (stringMatch: StringMatcher) => leaf<PrincipalLeaf>({ header: { name, stringMatch } });
  const some = (of: readonly Text[]) => anyOf(of.map((pattern) => has(stringMatcher(pattern))));
  if (reading === 'wide')
    return anyOf([some(texts), ...texts.map((pattern) => has(regexMatcher(elementRegex(pattern))))]);
  // There is no short expression that excludes both prefixes and suffixes: either all patterns are prefixes, or all are
  // suffixes.
  const kinds = [texts.filter(({ kind }) => kind !== 'suffix'), texts.filter(({ kind }) => kind === 'suffix')];
  return anyOf(kinds.map((of) => allOf([some(of), ...othersThan(of).map((regex) => not(has(regexMatcher(regex))))])));
}

/** A comma-separated list that has such an element. */
function elementRegex({ kind, text }: Text): string {
  const before = kind === 'suffix' ? '.*' : '(.*,)?[ \\t]*';
  const after = kind === 'prefix' ? '.*' : '[ \\t]*(,.*)?';
  return `(?s)${before}${escapeRegex(text)}${after}`;
}

/** Maximum nesting of an expression: RE2 accepts 1000. Of longer strings, only the beginning is compared. */
const MAX_DEPTH = 200;

/**
 * Maximum number of nodes of a trie in one expression. Each needs about nine instructions of RE2, of which Envoy
 * accepts 32,768 (as in the agent's bootstrap): with a longer expression, it refuses the whole listener.
 */
const MAX_NODES = 1500;

/** Strings with a common prefix share its nodes. */
interface Trie {
  readonly next: Map<string, Trie>;
  /** Whether the string may end here, and whether anything may follow. */
  ends: boolean;
  goesOn: boolean;
  /** The number of nodes in this subtree. */
  nodes: number;
}

const leafNode = (): Trie => ({ next: new Map(), ends: false, goesOn: false, nodes: 1 });

/**
 * Regular expressions that together match every string that none of the patterns matches; either all patterns are
 * suffixes, or none is. RE2 has no negation, so it is expanded: the first character differs, or it is equal and the
 * rest differs.
 */
function othersThan(patterns: readonly Text[]): string[] {
  const backwards = patterns.every(({ kind }) => kind === 'suffix');
  const root = leafNode();
  for (const { kind, text } of patterns) {
    const path = [root];
    let at = root;
    // Envoy's RE2 compares bytes; their values are written, so that no character is split.
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

/** The strings after `begun` that leave a trie, in as many expressions as needed. */
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

/** Matches any character other than those that continue the trie, and any rest. */
function atOnce({ next }: Trie, backwards: boolean): string {
  const letter = next.size === 0 ? '.' : `[^${[...next.keys()].join('')}]`;
  return backwards ? `.*${letter}` : `${letter}.*`;
}

/** The strings that leave a trie; undefined when there are none. */
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
