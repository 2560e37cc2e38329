/**
 * Patterns of policies: exact, `prefix*`, `*suffix`, or `*` for anything. A star anywhere else matches itself, and so
 * does every other character: strings of users are escaped before they become part of a regular expression.
 */
import type { envoy } from '../../../protobuf/index.ts';

export type StringMatcher = envoy.type.matcher.v3.StringMatcher.Input;

export type Pattern =
  | { readonly kind: 'any' }
  | { readonly kind: 'exact' | 'prefix' | 'suffix'; readonly text: string };

export function parsePattern(value: string): Pattern {
  if (value === '*') return { kind: 'any' };
  if (value.startsWith('*')) return { kind: 'suffix', text: value.slice(1) };
  if (value.endsWith('*')) return { kind: 'prefix', text: value.slice(0, -1) };
  return { kind: 'exact', text: value };
}

/** A matcher of one pattern; the meaning of `any` differs between fields. */
export function stringMatcher({ kind, text }: Exclude<Pattern, { kind: 'any' }>, ignoreCase = false): StringMatcher {
  return { [kind]: text, ...(ignoreCase && { ignoreCase }) };
}

/** RE2 matches the whole string. */
export function regexMatcher(regex: string): StringMatcher {
  return { safeRegex: { regex } };
}

/** A regular expression that matches exactly this string (RE2 syntax). */
export function escapeRegex(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
}
