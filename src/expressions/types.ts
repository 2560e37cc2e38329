/** The values of expressions, their types, and compiled expressions. */

/** The types of attributes and expressions, by the names that attribute manifests use. */
export const VALUE_TYPES = [
  'STRING',
  'INT64',
  'DOUBLE',
  'BOOL',
  'TIMESTAMP',
  'DURATION',
  'IP_ADDRESS',
  'EMAIL_ADDRESS',
  'URI',
  'DNS_NAME',
  'STRING_MAP',
] as const;

export type ValueType = (typeof VALUE_TYPES)[number];

/** A moment: nanoseconds since the Unix epoch. */
export interface Timestamp {
  readonly kind: 'timestamp';
  readonly nanos: bigint;
}

/** A length of time in nanoseconds; it may be negative. */
export interface Duration {
  readonly kind: 'duration';
  readonly nanos: bigint;
}

/**
 * A value. By type: STRING, EMAIL_ADDRESS, URI and DNS_NAME are strings, INT64 a bigint, DOUBLE a number, IP_ADDRESS 4
 * or 16 bytes in network order, STRING_MAP a map.
 */
export type Value =
  | string
  | bigint
  | number
  | boolean
  | Uint8Array
  | ReadonlyMap<string, string>
  | Timestamp
  | Duration;

/**
 * What a request or connection says of itself. The value of an attribute has the type that the vocabulary declares; an
 * attribute that is missing is undefined.
 */
export interface Attributes {
  get(name: string): Value | undefined;
}

/**
 * Attribute expressions (the language of Istio's policies up to 1.7), the Common Expression Language, or COMPAT: the
 * syntax of attribute expressions with the meaning of CEL.
 */
export const LANGUAGES = ['CEXL', 'CEL', 'COMPAT'] as const;

export type Language = (typeof LANGUAGES)[number];

/** The types of all attributes that an expression may name. */
export type Vocabulary = ReadonlyMap<string, ValueType>;

/** A compiled expression. */
export interface Expression {
  readonly type: ValueType;
  /** The attributes that it can read, each once, sorted. */
  readonly reads: readonly string[];
  /** Throws {@link EvaluationError}: an attribute is missing, a value is wrong, or a limit is exceeded. */
  evaluate(attributes: Attributes): Value;
}

/** Why an expression has no value for some attributes: one line, for a log. */
export class EvaluationError extends Error {
  override readonly name = 'EvaluationError';
}
