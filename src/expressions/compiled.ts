/** What the parts of an expression are compiled to: closures over the attributes of one evaluation. */
import { MAX_STEPS } from './limits.ts';
import { type Attributes, EvaluationError, type Value, type ValueType } from './types.ts';

/** One evaluation. */
export class Context {
  readonly attributes: Attributes;
  #steps = MAX_STEPS;

  constructor(attributes: Attributes) {
    this.attributes = attributes;
  }

  /** Counts the work of a function or an operator; throws EvaluationError if it is too much. */
  spend(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw new EvaluationError('the strings are too long for this expression');
  }
}

export interface Compiled {
  readonly type: ValueType;
  /** Throws EvaluationError if there is no value. */
  readonly value: (context: Context) => Value;
  /** What `|` reads: undefined if an attribute or a key of a map is missing. Throws EvaluationError otherwise. */
  readonly optional: (context: Context) => Value | undefined;
  /** Whether it reads nothing, so that the value is always the same. */
  readonly constant: boolean;
}

/** A part that has a value or fails. */
export function required(type: ValueType, value: (context: Context) => Value, constant = false): Compiled {
  return { type, value, optional: value, constant };
}
