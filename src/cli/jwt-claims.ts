/** Claims on the command line of ctl-jwt. */

import { usageError } from '../settings/index.ts';

type Claims = Readonly<Record<string, unknown>>;

function objectOf(flag: string, text: string): Claims {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw usageError(`invalid value ${JSON.stringify(text)} for flag --${flag}: not a JSON object`, error);
  }
  // JSON that begins with a brace is an object.
  return value as Claims;
}

function pairsOf(flag: string, text: string): Claims {
  const pairs = text
    .split(',')
    .filter((pair) => pair.trim() !== '')
    .map((pair): [string, string] => {
      const colon = pair.indexOf(':');
      const name = pair.slice(0, Math.max(colon, 0)).trim();
      if (name !== '') return [name, pair.slice(colon + 1)];
      throw usageError(`invalid value ${JSON.stringify(text)} for flag --${flag}: expected name:value,… or JSON`);
    });
  return Object.fromEntries(pairs);
}

/**
 * All claims of one flag. A later claim replaces an earlier one of the same name. Names with colons need the JSON form.
 * Throws a usage error that names the flag.
 */
export function claimsOf(flag: string, texts: readonly string[]): Record<string, unknown> {
  const parts = texts.map((text) => (text.trimStart().startsWith('{') ? objectOf(flag, text) : pairsOf(flag, text)));
  return Object.assign({}, ...parts);
}
