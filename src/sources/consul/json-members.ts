/**
 * Reads a long JSON array or object member by member, so that the main thread can do other work in between.
 * `JSON.parse` of tens of megabytes would stop it for a second.
 */
import { CtlError, messageOf } from '../../core/errors.ts';

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** For how long members are read without a pause, ms. */
const TURN_MS = 4;

export interface Turns {
  /** Monotonic ms. */
  now(): number;
  /** Resolves when other work had its turn. */
  pause(): Promise<void>;
}

/**
 * Calls `use` for each element of an array. Rejects with CtlError unless the body is exactly one array.
 */
export async function readElements(body: Buffer, turns: Turns, use: (element: unknown) => void): Promise<void> {
  await eachMember(body, OPEN_LIST, turns, (text) => use(parsed(text)));
}

/** Calls `use` for each member of an object. Rejects with CtlError unless the body is exactly one object. */
export async function readEntries(
  body: Buffer,
  turns: Turns,
  use: (name: string, value: unknown) => void,
): Promise<void> {
  await eachMember(body, OPEN_OBJECT, turns, (text) => {
    const entries = Object.entries(parsed(`{${text}}`) as object);
    if (entries.length !== 1) throw malformed('expected a member of an object');
    for (const [name, value] of entries) use(name, value);
  });
}

async function eachMember(body: Buffer, open: number, turns: Turns, use: (text: string) => void): Promise<void> {
  let resumedAt = turns.now();
  for (const text of memberTexts(body, open)) {
    use(text);
    if (turns.now() - resumedAt < TURN_MS) continue;
    await turns.pause();
    resumedAt = turns.now();
  }
}

/** The text of each member. It is not parsed here: only strings and brackets are told apart. */
function* memberTexts(body: Buffer, open: number): Generator<string> {
  const first = spaceEnd(body, 0);
  if (body[first] !== open) throw malformed(`expected ${open === OPEN_LIST ? 'an array' : 'an object'}`);
  const close = open === OPEN_LIST ? CLOSE_LIST : CLOSE_OBJECT;
  let [start, depth] = [first + 1, 0];
  for (let at = start; at < body.length; at++) {
    const byte = body[at];
    if (byte === QUOTE) at = stringEnd(body, at);
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++;
    else if (byte === COMMA && depth === 0) {
      yield body.toString('utf8', start, at);
      start = at + 1;
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      if (depth-- > 0) continue;
      if (byte !== close || spaceEnd(body, at + 1) < body.length) throw malformed('unexpected characters at its end');
      const last = body.toString('utf8', start, at);
      if (start > first + 1 || last.trim() !== '') yield last;
      return;
    }
  }
  throw malformed('it ends too early');
}

/** Index of the quote that ends the string. */
function stringEnd(body: Buffer, start: number): number {
  for (let at = start + 1; at < body.length; at++) {
    const byte = body[at];
    if (byte === BACKSLASH) at++;
    else if (byte === QUOTE) return at;
  }
  return body.length;
}

/** Index of the first byte from `at` on that is no white space (RFC 8259, section 2). */
function spaceEnd(body: Buffer, at: number): number {
  let end = at;
  for (let byte = body[end]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; byte = body[end]) end++;
  return end;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw malformed(messageOf(error));
  }
}

function malformed(why: string): CtlError {
  return new CtlError('unavailable', `the response is not valid JSON: ${why.replaceAll('\n', ' ').slice(0, 200)}`);
}
