/** Regular expressions that the control plane itself evaluates: those for proxy versions. */
import { createRequire } from 'node:module';

type Re2 = typeof import('re2js').RE2JS;
type Matcher = (text: string) => boolean;

/** Limits the time to compile an expression, and to match a string of {@link MAX_TEXT}, to milliseconds. */
export const MAX_MATCHED_PROGRAM = 128;
/** Longer strings do not match any expression: versions are shorter. */
const MAX_TEXT = 128;
/** The number of expressions that are kept, most recently used. Meshes have a few, for thousands of proxies. */
const MAX_KEPT = 1000;
/** Results that are kept for an expression. Meshes have a few versions of proxies. */
const MAX_RESULTS = 32;

let loaded: Re2 | undefined;
const kept = new Map<string, Matcher>();

/**
 * An expression that `readRegex` accepts, of at most {@link MAX_MATCHED_PROGRAM} steps, as a function that returns
 * whether a string contains a match.
 */
export function compileRegex(pattern: string): Matcher {
  const matcher = kept.get(pattern) ?? remembering(regexMatcher(pattern));
  kept.delete(pattern);
  kept.set(pattern, matcher);
  for (const oldest of kept.keys()) {
    if (kept.size <= MAX_KEPT) break;
    kept.delete(oldest);
  }
  return matcher;
}

/** The same for strings of any length, without memory of results: callers limit program times string. */
export function regexMatcher(pattern: string): (text: string) => boolean {
  // Loaded with the first expression, because most meshes have none.
  loaded ??= (createRequire(import.meta.url)('re2js') as typeof import('re2js')).RE2JS;
  const expression = loaded.compile(pattern);
  return (text) => expression.matcher(text).find();
}

function remembering(matches: Matcher): Matcher {
  const results = new Map<string, boolean>();
  return (text) => {
    if (text.length > MAX_TEXT) return false;
    const known = results.get(text);
    if (known !== undefined) return known;
    if (results.size >= MAX_RESULTS) results.clear();
    const result = matches(text);
    results.set(text, result);
    return result;
  };
}
