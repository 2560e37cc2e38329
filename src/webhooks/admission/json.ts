/**
 * Reads JSON that anyone may have written. The nesting is limited before anything else looks at the value: code that
 * walks a document calls itself for each level, and must not exhaust the stack (as in CVE-2022-24726).
 */
import { CtlError, messageOf } from '../../core/errors.ts';

/** Deeper than any document of a cluster: the API server's own types end below 30, patches for Envoy below 100. */
export const MAX_DEPTH = 200;

/** The key by which an assignment to an object replaces its prototype. */
const PROTOTYPE_KEY = '__proto__';

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * The value of a JSON text in UTF-8. If a key is repeated, the last value is used.
 * @param maxValues each value takes memory and time, however short it is
 * @throws CtlError invalid_argument
 */
export function readJson(bytes: Uint8Array, maxValues: number): unknown {
  const excess = excessOf(bytes, maxValues);
  if (excess !== undefined) throw new CtlError('invalid_argument', `the body ${excess}`);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new CtlError('invalid_argument', 'the body is not UTF-8');
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CtlError('invalid_argument', `the body is not JSON: ${messageOf(error).replaceAll(/\s+/g, ' ')}`);
  }
}

/**
 * Which limit is exceeded outside of strings: that of levels or that of values. For a body that is not JSON, any result
 * is correct.
 */
function excessOf(bytes: Uint8Array, maxValues: number): string | undefined {
  let depth = 0;
  let values = 1;
  let inString = false;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index];
    if (inString) {
      if (byte === BACKSLASH) index++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === COMMA) values++;
    else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) {
      depth++;
      values++;
      if (depth > MAX_DEPTH) return `is nested more than ${MAX_DEPTH} levels deep`;
    } else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) depth--;
  }
  return values > maxValues ? `has more than ${maxValues} values` : undefined;
}

/**
 * The path of an object with a key `__proto__` inside a value of {@link readJson}; undefined when there is none. Such a
 * key is an ordinary one until the object is copied key by key.
 */
export function findPrototypeKey(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Object.hasOwn(value, PROTOTYPE_KEY)) return '';
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = findPrototypeKey(value[index]);
      if (found !== undefined) return joined(`[${index}]`, found);
    }
    return undefined;
  }
  for (const [key, child] of Object.entries(value)) {
    const found = findPrototypeKey(child);
    if (found !== undefined) return joined(key, found);
  }
  return undefined;
}

function joined(step: string, path: string): string {
  return path === '' || path.startsWith('[') ? `${step}${path}` : `${step}.${path}`;
}

/** Removes the key `__proto__` everywhere in a value. */
export function removePrototypeKeys(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  if (Object.hasOwn(value, PROTOTYPE_KEY)) Reflect.deleteProperty(value, PROTOTYPE_KEY);
  for (const child of Object.values(value)) removePrototypeKeys(child);
}
