/** Expressions over attributes: parsed, checked for types, compiled to closures. */
export { addressText } from './addresses.ts';
export { type CompileOptions, checkSyntax, compileExpression } from './compile.ts';
export { isOfRequests, matchesConnections, readsRequests } from './connections.ts';
export { type Facts, MISSING, type Possible, possibleIn } from './partial.ts';
export { durationOf as parsedDuration, durationText, timestampOf as parsedTimestamp, timestampText } from './times.ts';
export {
  type Attributes,
  type Duration,
  EvaluationError,
  type Expression,
  LANGUAGES,
  type Language,
  type Timestamp,
  VALUE_TYPES,
  type Value,
  type ValueType,
  type Vocabulary,
} from './types.ts';
