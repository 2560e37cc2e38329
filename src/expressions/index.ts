/** Expressions over attributes: parsed, checked for types, compiled to closures. */
export {
  type Attributes,
  type Duration,
  EvaluationError,
  type Expression,
  type Timestamp,
  VALUE_TYPES,
  type Value,
  type ValueType,
  type Vocabulary,
} from './types.ts';
