/**
 * Removes what looks like a credential from a text. Debug pages are redacted by schemas before they are sent; this is a
 * second guard, for what is in texts: log lines, and messages of Envoy that quote configuration.
 */
import { isObject } from '../../core/objects.ts';
import { isSecretName, REDACTED } from '../../core/redact.ts';

/** A name of a credential before its value: `password=…`, `"token": "…"`. */
const NAMED =
  /((?:password|passwd|passphrase|secret|token|api[-_]?key|private[-_]?key)\\?["']?\s*[:=]\s*\\?["']?)([^\s"'\\,;&)}\]]+)/gi;

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, REDACTED],
  // JSON Web Tokens: the first part begins with {".
  [/\beyJ[\w-]{4,}\.[\w-]+(?:\.[\w-]*)?/g, REDACTED],
  [/\b(Bearer|Basic|Token)\s+[\w.~+/=-]{6,}/gi, `$1 ${REDACTED}`],
  [/\b([a-z][a-z0-9+.-]*:\/\/)[^/\s"'@]+@/gi, `$1${REDACTED}@`],
  [NAMED, `$1${REDACTED}`],
];

export function scrubText(text: string): string {
  return PATTERNS.reduce((scrubbed, [pattern, replacement]) => scrubbed.replace(pattern, replacement), text);
}

/** All texts of a JSON value. */
export function scrubJson(value: unknown): unknown {
  if (typeof value === 'string') return scrubText(value);
  if (Array.isArray(value)) return value.map(scrubJson);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, scrubJson(item)]));
}

/** Lists of `{name, value}`, flags and variables: values whose names say that they are credentials are left out. */
export function scrubSettings(value: unknown): unknown {
  if (!Array.isArray(value)) return scrubJson(value);
  return value.map((item: unknown) => {
    if (!isObject(item) || typeof item.name !== 'string') return scrubJson(item);
    // The path of a file is not what is in it.
    const isSecret = isSecretName(item.name) && typeof item.value === 'string' && !/^(?:\/[\w./-]*)?$/.test(item.value);
    return { ...item, value: isSecret ? REDACTED : scrubJson(item.value) };
  });
}
