/**
 * Text of documents and of responses, on its way to a terminal: control characters (C0, C1, escape sequences) may
 * command the terminal, and bidirectional controls and line separators may make a line look like another one.
 */

/** Line feeds and tabs, too. */
const UNSAFE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** The same as one line without these characters. */
export function printable(text: string, substitute = '?'): string {
  return text.replace(UNSAFE, substitute);
}

/** JSON text with these characters as `\uXXXX`, except white space between values. */
export function printableJson(json: string): string {
  return json.replace(UNSAFE, (char) => {
    return char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** Whether text of several lines has none of these characters. */
export function isPrintable(text: string): boolean {
  return text.replaceAll('\n', '').search(UNSAFE) === -1;
}
