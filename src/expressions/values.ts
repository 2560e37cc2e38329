/** Values by type: their TypeScript types, checks, defaults, order. */
import { addressesEqual } from './addresses.ts';
import { dnsNamesEqual, emailsEqual, urisEqual } from './names.ts';
import { type Duration, EvaluationError, type Timestamp, type Value, type ValueType } from './types.ts';

export interface TypeOf {
  STRING: string;
  INT64: bigint;
  DOUBLE: number;
  BOOL: boolean;
  TIMESTAMP: Timestamp;
  DURATION: Duration;
  IP_ADDRESS: Uint8Array;
  EMAIL_ADDRESS: string;
  URI: string;
  DNS_NAME: string;
  STRING_MAP: ReadonlyMap<string, string>;
}

const isString = (value: Value): boolean => typeof value === 'string';

const IS_OF_TYPE: Readonly<Record<ValueType, (value: Value) => boolean>> = {
  STRING: isString,
  INT64: (value) => typeof value === 'bigint',
  DOUBLE: (value) => typeof value === 'number',
  BOOL: (value) => typeof value === 'boolean',
  TIMESTAMP: (value) => typeof value === 'object' && 'kind' in value && value.kind === 'timestamp',
  DURATION: (value) => typeof value === 'object' && 'kind' in value && value.kind === 'duration',
  IP_ADDRESS: (value) => value instanceof Uint8Array,
  EMAIL_ADDRESS: isString,
  URI: isString,
  DNS_NAME: isString,
  STRING_MAP: (value) => value instanceof Map,
};

export function isOfType(type: ValueType, value: Value): boolean {
  return IS_OF_TYPE[type](value);
}

/** What CEL reads for an attribute that is missing. */
export const DEFAULTS: Readonly<TypeOf> = {
  STRING: '',
  INT64: 0n,
  DOUBLE: 0,
  BOOL: false,
  TIMESTAMP: { kind: 'timestamp', nanos: 0n },
  DURATION: { kind: 'duration', nanos: 0n },
  IP_ADDRESS: new Uint8Array(),
  EMAIL_ADDRESS: '',
  URI: '',
  DNS_NAME: '',
  STRING_MAP: new Map(),
};

const same = (one: Value, other: Value): boolean => one === other;
const sameTime = (one: Value, other: Value): boolean => (one as Timestamp).nanos === (other as Timestamp).nanos;

/** For names of some syntax: strings without it are not comparable, except the default of CEL. */
function named(what: string, equal: (one: string, other: string) => boolean | undefined) {
  return (one: Value, other: Value): boolean => {
    if (one === '' || other === '') return one === other;
    const result = equal(one as string, other as string);
    if (result === undefined) throw new EvaluationError(`expected two ${what} to compare, got another string`);
    return result;
  };
}

/** Whether two values of a type are equal; types that are missing cannot be compared. */
export const EQUAL: Readonly<Partial<Record<ValueType, (one: Value, other: Value) => boolean>>> = {
  STRING: same,
  INT64: same,
  DOUBLE: same,
  BOOL: same,
  TIMESTAMP: sameTime,
  DURATION: sameTime,
  IP_ADDRESS: (one, other) => addressesEqual(one as Uint8Array, other as Uint8Array),
  EMAIL_ADDRESS: named('e-mail addresses', emailsEqual),
  URI: named('URIs', urisEqual),
  DNS_NAME: named('DNS names', dnsNamesEqual),
};

const ordered = (one: string | bigint | number, other: string | bigint | number): number =>
  one < other ? -1 : one > other ? 1 : one === other ? 0 : Number.NaN;

const timesOrdered = (one: Value, other: Value): number => ordered((one as Duration).nanos, (other as Duration).nanos);

/** Negative, 0 or positive as for sorting, NaN without order; types that are missing have no order. */
export const ORDER: Readonly<Partial<Record<ValueType, (one: Value, other: Value) => number>>> = {
  STRING: (one, other) => stringsOrdered(one as string, other as string),
  INT64: (one, other) => ordered(one as bigint, other as bigint),
  DOUBLE: (one, other) => ordered(one as number, other as number),
  TIMESTAMP: timesOrdered,
  DURATION: timesOrdered,
};

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff;

/** By code points, which is the order of the UTF-8 bytes; JavaScript compares UTF-16 code units. */
function stringsOrdered(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length);
  for (let at = 0; at < shorter; at++) {
    const [a, b] = [one.charCodeAt(at), other.charCodeAt(at)];
    if (a !== b) return isSurrogate(a) === isSurrogate(b) ? a - b : isSurrogate(a) ? 1 : -1;
  }
  return one.length - other.length;
}
