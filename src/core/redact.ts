/**
 * Redacts configuration for debug pages and messages, by names and kinds of values. The fields that hold secrets are
 * listed where they are defined: in the schemas of the resources, and in the annotations of Envoy's messages
 * (`protobuf/sensitive.ts`).
 */
import { isObject } from './objects.ts';

/** Replaces a redacted value; the same string as in Envoy's own config dump. */
export const REDACTED = '[redacted]';

/** Words in the name of a header, query parameter or metadata key that make its value a credential. */
const SECRET_WORDS =
  /authorization|cookie|token|secret|passw|passphrase|credential|signature|session|bearer|jwt|(?:^|[-_.])(?:auth|key|pwd)(?:$|[-_.])|(?:api|access|private)key/i;

/**
 * Whether the value of a header, query parameter or metadata key of this name may be a credential. False for
 * pseudo-headers.
 */
export function isSecretName(name: string): boolean {
  return !name.startsWith(':') && SECRET_WORDS.test(name);
}

/** A URL without user, password and query. */
export function redactUrl(url: string): string {
  return url.replace(/^([a-z][a-z0-9+.-]*:[\\/]*)[^\\/?#]*@/i, `$1${REDACTED}@`).replace(/\?[^#]*/, `?${REDACTED}`);
}

/** Members of a JSON Web Key that are public (RFC 7517 section 4, RFC 7518 section 6). */
const PUBLIC_MEMBERS = new Set('kty use key_ops alg kid x5u x5c x5t x5t#S256 crv x y n e'.split(' '));

/** The JSON of a key set with only the public members of each key. */
export function redactKeySet(text: string): string {
  try {
    const set: unknown = JSON.parse(text);
    if (!isObject(set) || !Array.isArray(set.keys)) return REDACTED;
    return JSON.stringify({ keys: set.keys.map(publicKey) });
  } catch {
    return REDACTED;
  }
}

function publicKey(key: unknown): unknown {
  if (!isObject(key)) return REDACTED;
  return Object.fromEntries(
    Object.entries(key).map(([name, value]) => [name, PUBLIC_MEMBERS.has(name) ? value : REDACTED]),
  );
}

/** The same structure with every string and number replaced. */
export function redactAll(value: unknown, text: (secret: string) => string = () => REDACTED): unknown {
  if (typeof value === 'string') return text(value);
  if (typeof value === 'number' || typeof value === 'bigint') return REDACTED;
  if (Array.isArray(value)) return value.map((item) => redactAll(item, text));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, redactAll(item, text)]));
}

/** The same object, with the values replaced whose names indicate credentials. */
export function redactByName(values: unknown): unknown {
  if (!isObject(values)) return redactAll(values);
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, isSecretName(name) ? redactAll(value) : value]),
  );
}
