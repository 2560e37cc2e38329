/** String matches of the resources as Envoy's matchers. */
import type { HeaderMatch, StringMatch } from '../../resources/index.ts';
import type { HeaderMatcher, QueryParameterMatcher, StringMatcher } from './messages.ts';

/** Exact, prefix, or RE2 over the whole string (Envoy's `safe_regex` is a full match too). */
export function stringMatcher(match: StringMatch): StringMatcher {
  if ('exact' in match) return { exact: match.exact };
  if ('prefix' in match) return { prefix: match.prefix };
  return { safeRegex: { regex: match.regex } };
}

/**
 * Whether the match accepts every value, so that it only checks presence. An empty `prefix` and `*` as regex are common
 * spellings of this that Envoy refuses: an empty prefix breaks its validation rule, `*` is not RE2.
 */
function asksForPresence(match: HeaderMatch): match is { readonly present: true } {
  if ('present' in match) return true;
  if ('prefix' in match) return match.prefix === '';
  return 'regex' in match && (match.regex === '*' || match.regex === '.*');
}

export function headerMatcher(name: string, match: HeaderMatch): HeaderMatcher {
  if (asksForPresence(match)) return { name, presentMatch: true };
  return { name, stringMatch: stringMatcher(match) };
}

/**
 * The opposite of {@link headerMatcher}. A request without the header matches as well: Envoy inverts only the
 * comparison, and a missing header fails it either way unless it counts as empty.
 */
export function withoutHeaderMatcher(name: string, match: HeaderMatch): HeaderMatcher {
  const matcher = headerMatcher(name, match);
  if (matcher.presentMatch === true) return { ...matcher, invertMatch: true };
  return { ...matcher, invertMatch: true, treatMissingHeaderAsEmpty: true };
}

export function queryParameterMatcher(name: string, match: HeaderMatch): QueryParameterMatcher {
  if (asksForPresence(match)) return { name, presentMatch: true };
  return { name, stringMatch: stringMatcher(match) };
}
