/**
 * Parses expressions: operators by precedence, methods, calls, indexes, literals. The syntax of CEXL is a part of that
 * of Go expressions (https://go.dev/ref/spec#Operators), in which `|` binds tighter than `==`; that of CEL is
 * https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax without comprehensions, messages and maps.
 */
import { CtlError } from '../core/errors.ts';
import { MAX_DEPTH, MAX_LENGTH, MAX_NODES } from './limits.ts';
import { expressionError, type Node } from './nodes.ts';
import type { Syntax } from './quoted.ts';
import { durationOf } from './times.ts';
import { type Token, tokensOf } from './tokens.ts';

/** Binary operators by precedence; all are left-associative. */
const PRECEDENCE: Readonly<Record<Syntax, ReadonlyMap<string, number>>> = {
  CEXL: levels([['||'], ['&&'], ['==', '!=', '<', '<=', '>', '>='], ['+', '-', '|'], ['*', '/', '%']]),
  CEL: levels([['||'], ['&&'], ['==', '!=', '<', '<=', '>', '>=', 'in'], ['+', '-'], ['*', '/', '%']]),
};
/** Operators that may stand before an operand. */
const UNARY: ReadonlySet<string> = new Set(['!', '-']);
const MAX_INT64 = 2n ** 63n - 1n;

function levels(operators: readonly (readonly string[])[]): ReadonlyMap<string, number> {
  return new Map(operators.flatMap((names, level) => names.map((name) => [name, level + 1] as const)));
}

/** Throws CtlError `invalid_argument`, and nothing else. */
export function parse(text: string, syntax: Syntax): Node {
  if (text.length > MAX_LENGTH) {
    throw expressionError(0, `expected an expression of at most ${MAX_LENGTH} characters, got ${text.length}`);
  }
  return new Parser(tokensOf(text, syntax), syntax).whole();
}

/** The trees of an expression of which the language is not known: one for each syntax that accepts it. */
export function parsedInAnySyntax(text: string): readonly Node[] {
  return (['CEXL', 'CEL'] as const).flatMap((syntax) => {
    try {
      return [parse(text, syntax)];
    } catch (error) {
      if (error instanceof CtlError) return [];
      throw error;
    }
  });
}

class Parser {
  readonly #tokens: readonly Token[];
  readonly #syntax: Syntax;
  #next = 0;
  #depth = 0;
  #nodes = 0;

  constructor(tokens: readonly Token[], syntax: Syntax) {
    this.#tokens = tokens;
    this.#syntax = syntax;
  }

  whole(): Node {
    const node = this.#expression();
    if (this.#peek().kind !== 'end') throw this.#unexpected('expected an operator or the end');
    return node;
  }

  #peek(): Token {
    return this.#tokens[this.#next] as Token;
  }

  #isSign(sign: string): boolean {
    const { kind, text } = this.#peek();
    return kind === 'sign' && text === sign;
  }

  #take(sign: string): boolean {
    const found = this.#isSign(sign);
    if (found) this.#next++;
    return found;
  }

  #expect(sign: string): void {
    if (!this.#take(sign)) throw this.#unexpected(`expected ${JSON.stringify(sign)}`);
  }

  #unexpected(expected: string): Error {
    const { kind, text, at } = this.#peek();
    return expressionError(at, `${expected}, got ${kind === 'end' ? 'the end' : JSON.stringify(text.slice(0, 40))}`);
  }

  #node(node: Node): Node {
    if (++this.#nodes > MAX_NODES) {
      throw expressionError(node.at, `expected an expression of at most ${MAX_NODES} operators and operands`);
    }
    return node;
  }

  #call(at: number, name: string, args: readonly Node[], method = false): Node {
    return this.#node({ kind: 'call', at, name, method, args });
  }

  #expression(): Node {
    if (++this.#depth > MAX_DEPTH) {
      throw expressionError(this.#peek().at, `expected at most ${MAX_DEPTH} levels of nesting`);
    }
    const { at } = this.#peek();
    const condition = this.#binary(1);
    let node = condition;
    if (this.#syntax === 'CEL' && this.#take('?')) {
      const yes = this.#binary(1);
      this.#expect(':');
      node = this.#call(at, 'conditional', [condition, yes, this.#expression()]);
    }
    this.#depth--;
    return node;
  }

  #operator(): { name: string; level: number } | undefined {
    const { kind, text } = this.#peek();
    if (kind !== 'sign' && !(kind === 'name' && text === 'in')) return undefined;
    const level = PRECEDENCE[this.#syntax].get(text);
    return level === undefined ? undefined : { name: text, level };
  }

  #binary(lowest: number): Node {
    let left = this.#unary();
    for (let operator = this.#operator(); operator !== undefined && operator.level >= lowest; ) {
      const { at } = this.#peek();
      this.#next++;
      left = this.#call(at, operator.name, [left, this.#binary(operator.level + 1)]);
      operator = this.#operator();
    }
    return left;
  }

  #unary(): Node {
    const { kind, text, at } = this.#peek();
    if (kind !== 'sign' || !UNARY.has(text)) return this.#postfix();
    this.#next++;
    const { kind: next, text: digits } = this.#peek();
    if (text === '-' && (next === 'int' || next === 'double')) {
      this.#next++;
      return this.#number({ kind: next, text: `-${digits}`, at });
    }
    if (++this.#depth > MAX_DEPTH) throw expressionError(at, `expected at most ${MAX_DEPTH} levels of nesting`);
    const node = this.#call(at, text, [this.#unary()]);
    this.#depth--;
    return node;
  }

  #postfix(): Node {
    let node = this.#primary();
    while (true) {
      const { at } = this.#peek();
      if (this.#take('[')) {
        node = this.#call(at, '[]', [node, this.#expression()]);
        this.#expect(']');
      } else if (this.#take('.')) {
        node = this.#member(node);
      } else {
        return node;
      }
    }
  }

  /** A further part of a name, or a method. */
  #member(target: Node): Node {
    const { kind, text, at } = this.#peek();
    if (kind !== 'name') throw this.#unexpected('expected a name');
    this.#next++;
    if (this.#take('(')) return this.#call(at, text, [target, ...this.#list(')')], true);
    if (target.kind !== 'name') throw expressionError(at, `expected a method: only attributes have members`);
    return { kind: 'name', at: target.at, name: `${target.name}.${text}` };
  }

  /** Expressions between commas until the closing sign. */
  #list(end: string): Node[] {
    const items: Node[] = [];
    if (this.#take(end)) return items;
    do items.push(this.#expression());
    while (this.#take(','));
    this.#expect(end);
    return items;
  }

  #primary(): Node {
    const token = this.#peek();
    const { kind, text, at } = token;
    this.#next++;
    if (kind === 'name') return this.#named(token);
    if (kind === 'int' || kind === 'double') return this.#number(token);
    if (kind === 'string') return this.#string(token);
    if (text === '(') {
      const node = this.#expression();
      this.#expect(')');
      return node;
    }
    if (text === '[' && this.#syntax === 'CEL') return this.#node({ kind: 'list', at, items: this.#list(']') });
    this.#next--;
    throw this.#unexpected('expected a value');
  }

  #named({ text, at }: Token): Node {
    if (this.#take('(')) return this.#call(at, text, this.#list(')'));
    const literal = this.#syntax === 'CEL' ? text : text.toLowerCase();
    if (literal === 'true' || literal === 'false') {
      return this.#node({ kind: 'literal', at, type: 'BOOL', value: literal === 'true' });
    }
    return this.#node({ kind: 'name', at, name: text });
  }

  #number({ kind, text, at }: Token): Node {
    if (kind === 'double') {
      const value = Number(text);
      if (!Number.isFinite(value)) throw expressionError(at, 'expected a number in the range of DOUBLE');
      return this.#node({ kind: 'literal', at, type: 'DOUBLE', value });
    }
    if (/[xX]/.test(text) && this.#syntax === 'CEXL') throw expressionError(at, 'expected a decimal number');
    const negative = text.startsWith('-');
    const size = BigInt(negative ? text.slice(1) : text);
    if (size > MAX_INT64 + (negative ? 1n : 0n)) throw expressionError(at, 'expected a number in the range of INT64');
    return this.#node({ kind: 'literal', at, type: 'INT64', value: negative ? -size : size });
  }

  /** In CEXL, a string that can be read as a duration is one. */
  #string({ text, at }: Token): Node {
    const duration = this.#syntax === 'CEXL' ? durationOf(text) : undefined;
    return duration === undefined
      ? this.#node({ kind: 'literal', at, type: 'STRING', value: text })
      : this.#node({ kind: 'literal', at, type: 'DURATION', value: duration });
  }
}
