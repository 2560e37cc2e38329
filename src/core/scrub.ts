/**
 * Removes what looks like a credential from texts that others will read. Configuration is redacted by schemas
 * (`redact.ts`); this is a second guard, for log lines, and for messages of Envoy that quote configuration.
 */
import { isObject } from './objects.ts';
import { isSecretName, REDACTED } from './redact.ts';

/** A name before its value: `password=…`, `"token": "…"`, `cookie: …`. */
const NAMED = /(?<![\w.-])(?<name>[\w.-]+)\\*["']?\s*[:=]\s*/g;
/** A name and a value as entries, in protobuf's text format or JSON: `key: "authorization" value: "…"`. */
const ENTRY = /\b(?:key|name)\\*["']?\s*:\s*\\*["'](?<name>[\w.-]+)\\*["'][\s,]*\\*["']?\w*value\\*["']?\s*:\s*/gi;
/** Contents of a file that are written in the configuration (Envoy's `DataSource`). */
const INLINE = /\binline_?(?:string|bytes)\\*["']?\s*:\s*/gi;
/**
 * A value: a string in quotes, up to the end of the text without a closing quote, or a word. Quotes in strings of JSON
 * have backslashes. An opening bracket is no value, nor is what has been removed.
 */
const VALUE = /(?<quote>\\*["'])[\s\S]*?(?:(?<!\\)\k<quote>|$)|(?!\[redacted\]|[{[<]+(?:[\s"']|$))[^\s"'\\,;&)}\]]+/y;
/** A header to the end of its line: its value has spaces and separators. */
const HEADER =
  /(?<![\w.-])((?:proxy-|set-)?(?:authorization|cookie)\s*[:=]\s*)(?![\s"'\\]|\[red)(?:=\\*"[^"\n]*"|[^\n"'\\})\]])+/gi;

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, REDACTED],
  // JSON Web Tokens: the first part begins with {".
  [/\beyJ[\w-]{4,}(?:\.[\w-]+(?:\.[\w-]*)?)?/g, REDACTED],
  [HEADER, `$1${REDACTED}`],
  [/\b(Bearer|Basic|Token)\s+[\w.~+/=-]{6,}/gi, `$1 ${REDACTED}`],
  [/\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^/\s"'@]+@/gi, `$1${REDACTED}@`],
];

/** Names that say that a value is a credential; in texts and documents, a key is mostly the key of an entry. */
function isSecret(name: string): boolean {
  return name.toLowerCase() !== 'key' && isSecretName(name) && !/(?:names?|file|path)$/i.test(name);
}

export function scrubText(text: string): string {
  const scrubbed = PATTERNS.reduce((before, [pattern, replacement]) => before.replace(pattern, replacement), text);
  return [INLINE, ENTRY, NAMED].reduce(withoutValues, scrubbed);
}

/** @param before what is before a value, with its name, unless all values are credentials */
function withoutValues(text: string, before: RegExp): string {
  let [scrubbed, end] = ['', 0];
  for (const { 0: matched, index, groups } of text.matchAll(before)) {
    const at = index + matched.length;
    const name = groups?.name;
    if (index < end || (name !== undefined && !isSecret(name))) continue;
    VALUE.lastIndex = at;
    const value = VALUE.exec(text);
    if (value === null) continue;
    const quote = value.groups?.quote ?? '';
    scrubbed += `${text.slice(end, at)}${quote}${REDACTED}${quote}`;
    end = at + value[0].length;
  }
  return scrubbed + text.slice(end);
}

/**
 * Scrubs all strings of a JSON value. Those below a name of a credential are left out, as are those of entries that
 * have such a name: `{"key": "authorization", "value": "…"}`.
 */
export function scrubJson(value: unknown): unknown {
  return scrubBelow(value, '');
}

/** @param name of the member, or of the list that it is in */
function scrubBelow(value: unknown, name: string): unknown {
  if (typeof value === 'string') return isSecret(name) && value !== '' ? REDACTED : scrubText(value);
  if (Array.isArray(value)) return value.map((item) => scrubBelow(item, name));
  if (!isObject(value)) return value;
  const entry = [value.key, value.name].find((each) => typeof each === 'string' && isSecret(each));
  const isInline = (member: string) => isSecret(name) && /^inline_?(?:string|bytes)$/i.test(member);
  const nameOf = (member: string) => {
    if (isInline(member)) return name;
    return typeof entry === 'string' && /value$/i.test(member) ? entry : member;
  };
  return Object.fromEntries(Object.entries(value).map(([member, item]) => [member, scrubBelow(item, nameOf(member))]));
}

/** Lists of `{name, value}`, flags and variables: values whose names say that they are credentials are left out. */
export function scrubSettings(value: unknown): unknown {
  if (!Array.isArray(value)) return scrubJson(value);
  return value.map((item: unknown) => {
    if (!isObject(item) || typeof item.name !== 'string') return scrubJson(item);
    const isHidden = isSecretName(item.name) && typeof item.value === 'string' && !isPath(item.value);
    return { ...item, value: isHidden ? REDACTED : scrubJson(item.value) };
  });
}

/** Whether a value is empty or the path of a file, which is not what is in it. */
function isPath(value: string): boolean {
  return /^(?:\/[\w./-]*)?$/.test(value);
}
