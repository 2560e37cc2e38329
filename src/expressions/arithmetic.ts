/** Arithmetic by operator and types of the operands. */
import { MAX_STRING } from './limits.ts';
import { type Duration, EvaluationError, type Timestamp, type Value, type ValueType } from './types.ts';

export interface Arithmetic {
  readonly returns: ValueType;
  readonly compute: (left: Value, right: Value) => Value;
}

const overflow = (): EvaluationError => new EvaluationError('the result is not in the range of INT64');

function int64(value: bigint): bigint {
  if (BigInt.asIntN(64, value) !== value) throw overflow();
  return value;
}

function ints(compute: (left: bigint, right: bigint) => bigint): Arithmetic {
  return { returns: 'INT64', compute: (left, right) => int64(compute(left as bigint, right as bigint)) };
}

function divided(compute: (left: bigint, right: bigint) => bigint): Arithmetic {
  return ints((left, right) => {
    if (right === 0n) throw new EvaluationError('division by zero');
    return compute(left, right);
  });
}

function doubles(compute: (left: number, right: number) => number): Arithmetic {
  return { returns: 'DOUBLE', compute: (left, right) => compute(left as number, right as number) };
}

function times(kind: 'timestamp' | 'duration', compute: (left: bigint, right: bigint) => bigint): Arithmetic {
  return {
    returns: kind === 'timestamp' ? 'TIMESTAMP' : 'DURATION',
    compute: (left, right): Timestamp | Duration => ({
      kind,
      nanos: int64(compute((left as Duration).nanos, (right as Duration).nanos)),
    }),
  };
}

function concatenated(left: Value, right: Value): string {
  const text = `${left as string}${right as string}`;
  if (text.length > MAX_STRING) throw new EvaluationError(`the string has more than ${MAX_STRING} characters`);
  return text;
}

const add = (left: bigint, right: bigint): bigint => left + right;
const subtract = (left: bigint, right: bigint): bigint => left - right;

/** What attribute expressions have; their whole numbers continue at the other end of the range. */
const CEXL: ReadonlyMap<string, Arithmetic> = new Map<string, Arithmetic>([
  ['STRING + STRING', { returns: 'STRING', compute: concatenated }],
  [
    'INT64 + INT64',
    { returns: 'INT64', compute: (left, right) => BigInt.asIntN(64, (left as bigint) + (right as bigint)) },
  ],
  ['DOUBLE + DOUBLE', doubles((left, right) => left + right)],
]);

const CEL: ReadonlyMap<string, Arithmetic> = new Map<string, Arithmetic>([
  ['STRING + STRING', { returns: 'STRING', compute: concatenated }],
  ['INT64 + INT64', ints(add)],
  ['INT64 - INT64', ints(subtract)],
  ['INT64 * INT64', ints((left, right) => left * right)],
  ['INT64 / INT64', divided((left, right) => left / right)],
  ['INT64 % INT64', divided((left, right) => left % right)],
  ['DOUBLE + DOUBLE', doubles((left, right) => left + right)],
  ['DOUBLE - DOUBLE', doubles((left, right) => left - right)],
  ['DOUBLE * DOUBLE', doubles((left, right) => left * right)],
  ['DOUBLE / DOUBLE', doubles((left, right) => left / right)],
  ['DURATION + DURATION', times('duration', add)],
  ['DURATION - DURATION', times('duration', subtract)],
  ['TIMESTAMP + DURATION', times('timestamp', add)],
  ['DURATION + TIMESTAMP', times('timestamp', add)],
  ['TIMESTAMP - DURATION', times('timestamp', subtract)],
  ['TIMESTAMP - TIMESTAMP', times('duration', subtract)],
]);

export function arithmeticOf(
  semantics: 'CEXL' | 'CEL',
  left: ValueType,
  operator: string,
  right: ValueType,
): Arithmetic | undefined {
  return (semantics === 'CEL' ? CEL : CEXL).get(`${left} ${operator} ${right}`);
}

/** The number with the other sign. */
export function negated(value: Value): Value {
  return typeof value === 'bigint' ? int64(-value) : -(value as number);
}
