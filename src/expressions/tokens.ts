/** Splits an expression into tokens. */
import { expressionError } from './nodes.ts';
import { readQuoted, type Syntax } from './quoted.ts';

export interface Token {
  readonly kind: 'name' | 'int' | 'double' | 'string' | 'sign' | 'end';
  /** As written; of a string, its value. */
  readonly text: string;
  readonly at: number;
}

const NAME = /[\p{L}_][\p{L}\p{Nd}_]*/uy;
const NUMBER = /0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const SIGN = /&&|\|\||[<>=!]=|[-+*/%!<>?:.,()[\]|]/y;

function matchAt(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

const isSpace = (char: string | undefined): boolean => char === ' ' || char === '\t' || char === '\n' || char === '\r';

/** The last token has kind `end`. Throws CtlError `invalid_argument`. */
export function tokensOf(text: string, syntax: Syntax): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (true) {
    while (isSpace(text[at])) at++;
    if (at >= text.length) return [...tokens, { kind: 'end', text: '', at }];
    const { token, end } = tokenAt(text, at, syntax);
    tokens.push(token);
    at = end;
  }
}

function tokenAt(text: string, at: number, syntax: Syntax): { token: Token; end: number } {
  const quoted = readQuoted(text, at, syntax);
  if (quoted !== undefined) return { token: { kind: 'string', text: quoted.value, at }, end: quoted.end };
  const number = matchAt(NUMBER, text, at);
  if (number !== undefined) {
    const end = at + number.length;
    if (matchAt(NAME, text, end) !== undefined) throw expressionError(at, 'expected a number');
    return { token: { kind: /^0[xX]|^\d+$/.test(number) ? 'int' : 'double', text: number, at }, end };
  }
  const name = matchAt(NAME, text, at);
  if (name !== undefined) return { token: { kind: 'name', text: name, at }, end: at + name.length };
  const sign = matchAt(SIGN, text, at);
  if (sign !== undefined) return { token: { kind: 'sign', text: sign, at }, end: at + sign.length };
  const char = String.fromCodePoint(text.codePointAt(at) ?? 0);
  throw expressionError(at, `unexpected ${JSON.stringify(char)}`);
}
