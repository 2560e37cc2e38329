/** Compiles expressions. */
import { Checker } from './checker.ts';
import { Context } from './compiled.ts';
import { expressionError } from './nodes.ts';
import { parse } from './parser.ts';
import type { Expression, Language, ValueType, Vocabulary } from './types.ts';

export interface CompileOptions {
  readonly language: Language;
  readonly vocabulary: Vocabulary;
  /** The type that the expression must have; absent: any. */
  readonly type?: ValueType;
}

/** Throws CtlError `invalid_argument` with the column. */
export function compileExpression(text: string, { language, vocabulary, type }: CompileOptions): Expression {
  const node = parse(text, language === 'CEL' ? 'CEL' : 'CEXL');
  const checker = new Checker(vocabulary, language === 'CEXL' ? 'CEXL' : 'CEL');
  const compiled = checker.compile(node);
  if (type !== undefined && compiled.type !== type) {
    throw expressionError(node.at, `expected an expression of type ${type}, got ${compiled.type}`);
  }
  return {
    type: compiled.type,
    reads: checker.reads,
    evaluate: (attributes) => compiled.value(new Context(attributes)),
  };
}

/** Throws CtlError `invalid_argument` if the syntax is wrong; names and types are not checked. */
export function checkSyntax(text: string, language: Language): void {
  parse(text, language === 'CEL' ? 'CEL' : 'CEXL');
}
