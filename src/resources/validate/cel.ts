/**
 * Checks expressions of the Common Expression Language in access log filters: an Envoy refuses a listener whose filter
 * it cannot compile. Grammar: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax. Envoy evaluates
 * neither comprehensions nor most conversions by default, so their names are not accepted as functions.
 */

const FUNCTIONS: ReadonlySet<string> = new Set([
  ...[
    'bytes',
    'contains',
    'double',
    'duration',
    'endsWith',
    'has',
    'int',
    'matches',
    'size',
    'startsWith',
    'timestamp',
    'uint',
  ],
  ...['getDate', 'getDayOfMonth', 'getDayOfWeek', 'getDayOfYear', 'getFullYear', 'getHours', 'getMilliseconds'],
  ...['getMinutes', 'getMonth', 'getSeconds'],
]);

/** Maximum nesting, more than filters need; this parser and that of Envoy are recursive. */
const MAX_DEPTH = 32;

const TOKEN =
  /\s*(?:(0x[0-9a-fA-F]+u?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?u?)|([rRbB]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))|([a-zA-Z_]\w*)|(&&|\|\||[<>=!]=|[-+*/%!<>?:.,()[\]{}]))/y;

interface Token {
  readonly kind: 'number' | 'name' | 'string' | 'sign';
  readonly text: string;
}

class ExpressionError {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

/** One line that explains why Envoy could not compile the expression; undefined if there is no known reason. */
export function expressionProblem(expression: string): string | undefined {
  try {
    new Parser(tokens(expression)).whole();
    return undefined;
  } catch (error) {
    if (error instanceof ExpressionError) return `expected a CEL expression: ${error.message}`;
    throw error;
  }
}

function tokens(text: string): Token[] {
  const found: Token[] = [];
  TOKEN.lastIndex = 0;
  const end = text.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const at = TOKEN.lastIndex;
    const [, number, string, name, sign] = TOKEN.exec(text) ?? [];
    if (number !== undefined) found.push({ kind: 'number', text: number });
    else if (name !== undefined) found.push({ kind: 'name', text: name });
    else if (string !== undefined) found.push({ kind: 'string', text: string });
    else if (sign !== undefined) found.push({ kind: 'sign', text: sign });
    else throw new ExpressionError(`unexpected ${JSON.stringify(text.slice(at).trimStart().slice(0, 10))}`);
  }
  return found;
}

const OPERATORS: ReadonlySet<string> = new Set('&& || == != <= >= < > + - * / %'.split(' '));

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(all: readonly Token[]) {
    this.#tokens = all;
  }

  whole(): void {
    this.#expression();
    const { text } = this.#tokens[this.#at] ?? {};
    if (text !== undefined) throw new ExpressionError(`unexpected ${JSON.stringify(text.slice(0, 40))}`);
  }

  /** The precedence of operators does not matter for validity. */
  #expression(): void {
    if (++this.#depth > MAX_DEPTH) throw new ExpressionError(`nested more than ${MAX_DEPTH} deep`);
    this.#unary();
    while (this.#isOperator()) {
      this.#at++;
      this.#unary();
    }
    if (this.#take('?')) {
      this.#expression();
      this.#need(':');
      this.#expression();
    }
    this.#depth--;
  }

  #unary(): void {
    while (this.#take('!') || this.#take('-'));
    this.#primary();
    for (;;) {
      if (this.#take('.')) this.#call(this.#name());
      else if (this.#take('[')) {
        this.#expression();
        this.#need(']');
      } else return;
    }
  }

  #primary(): void {
    const token = this.#tokens[this.#at];
    if (token === undefined) throw new ExpressionError('it ends too early');
    this.#at++;
    if (token.kind === 'name' && !this.#isLiteral(token)) this.#call(token.text);
    if (token.kind !== 'sign') return;
    if (token.text === '(') {
      this.#expression();
      this.#need(')');
    } else if (token.text === '[') this.#list(']', () => this.#expression());
    else if (token.text === '{') this.#list('}', () => this.#entry());
    else throw new ExpressionError(`unexpected ${JSON.stringify(token.text)}`);
  }

  #isLiteral({ text }: Token): boolean {
    return text === 'true' || text === 'false' || text === 'null';
  }

  #entry(): void {
    this.#expression();
    this.#need(':');
    this.#expression();
  }

  /** The arguments after a name, if it is called. */
  #call(name: string): void {
    if (!this.#take('(')) return;
    if (!FUNCTIONS.has(name)) throw new ExpressionError(`Envoy has no function ${name.slice(0, 40)}`);
    this.#list(')', () => this.#expression());
  }

  #list(end: string, item: () => void): void {
    if (this.#take(end)) return;
    do item();
    while (this.#take(','));
    this.#need(end);
  }

  #name(): string {
    const token = this.#tokens[this.#at++];
    if (token?.kind === 'name') return token.text;
    throw new ExpressionError('expected a name after a dot');
  }

  #isOperator(): boolean {
    const token = this.#tokens[this.#at];
    return token !== undefined && (token.text === 'in' ? token.kind === 'name' : OPERATORS.has(token.text));
  }

  #take(sign: string): boolean {
    const token = this.#tokens[this.#at];
    if (token?.kind !== 'sign' || token.text !== sign) return false;
    this.#at++;
    return true;
  }

  #need(sign: string): void {
    if (!this.#take(sign)) throw new ExpressionError(`missing ${sign}`);
  }
}
