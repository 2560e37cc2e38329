/** Syntax trees of expressions, the same for all languages. */
import { CtlError } from '../core/errors.ts';
import type { Value, ValueType } from './types.ts';

export type Node =
  | { readonly kind: 'literal'; readonly at: number; readonly type: ValueType; readonly value: Value }
  /** A name with all its dots, such as `request.headers`. */
  | { readonly kind: 'name'; readonly at: number; readonly name: string }
  /** A list, only as the right operand of `in`. */
  | { readonly kind: 'list'; readonly at: number; readonly items: readonly Node[] }
  /** An operator, or a function; with `method`, the first argument is written before the dot. */
  | {
      readonly kind: 'call';
      readonly at: number;
      readonly name: string;
      readonly method: boolean;
      readonly args: readonly Node[];
    };

/** @param at offset in the expression, from 0 */
export function expressionError(at: number, message: string): CtlError {
  return new CtlError('invalid_argument', `column ${at + 1}: ${message}`);
}
