/** The functions that compute a value from values, with their types. Those with other rules are in `forms.ts`. */
import { addressOf } from './addresses.ts';
import type { Context } from './compiled.ts';
import { canonicalDnsName, isEmail, isUri } from './names.ts';
import { durationOf, durationText, timestampOf, timestampText } from './times.ts';
import { EvaluationError, type Value, type ValueType } from './types.ts';
import type { TypeOf } from './values.ts';

/** Whose meaning: attribute expressions, or CEL. */
export type Semantics = 'CEXL' | 'CEL';

export interface FunctionType {
  readonly name: string;
  /** Whether the first argument is written before the dot. */
  readonly method: boolean;
  readonly params: readonly ValueType[];
  readonly returns: ValueType;
  /** Absent: both have it. */
  readonly only?: Semantics;
  readonly call: (args: readonly Value[], context: Context) => Value;
}

type Arguments<P extends readonly ValueType[]> = { [K in keyof P]: TypeOf[P[K]] };

/** The checker has compared the types of arguments with `params`. */
function define<const P extends readonly ValueType[], R extends ValueType>(
  signature: { name: string; params: P; returns: R; method?: true; only?: Semantics },
  call: (args: Arguments<P>, context: Context) => TypeOf[R],
): FunctionType {
  return { method: false, ...signature, call: (args, context) => call(args as Arguments<P>, context) };
}

/** A function of a string that a string without the syntax has no value for. */
function converter<R extends ValueType>(
  signature: { name: string; returns: R; only?: Semantics },
  what: string,
  convert: (text: string) => TypeOf[R] | undefined,
): FunctionType {
  return define({ ...signature, params: ['STRING'] }, ([text], context) => {
    context.spend(text.length);
    const value = convert(text);
    if (value === undefined) throw new EvaluationError(`expected ${what}, got ${JSON.stringify(text.slice(0, 80))}`);
    return value;
  });
}

/** `*` at the end matches any continuation, `*` at the start any beginning. */
function matchesGlob(text: string, pattern: string): boolean {
  if (pattern.endsWith('*')) return text.startsWith(pattern.slice(0, -1));
  if (pattern.startsWith('*')) return text.endsWith(pattern.slice(1));
  return text === pattern;
}

const reversed = (text: string): string => [...text].reverse().join('');

const SHARED: readonly FunctionType[] = [
  converter({ name: 'ip', returns: 'IP_ADDRESS' }, 'an IP address', addressOf),
  converter({ name: 'timestamp', returns: 'TIMESTAMP' }, 'a timestamp as in RFC 3339', timestampOf),
  converter({ name: 'dnsName', returns: 'DNS_NAME' }, 'a DNS name', (text) =>
    canonicalDnsName(text) === undefined ? undefined : text,
  ),
  converter({ name: 'email', returns: 'EMAIL_ADDRESS' }, 'an e-mail address', (text) =>
    isEmail(text) ? text : undefined,
  ),
  converter({ name: 'uri', returns: 'URI' }, 'a URI', (text) => (isUri(text) ? text : undefined)),
  define({ name: 'match', params: ['STRING', 'STRING'], returns: 'BOOL' }, ([text, pattern], context) => {
    context.spend(pattern.length);
    return matchesGlob(text, pattern);
  }),
  define(
    { name: 'startsWith', method: true, params: ['STRING', 'STRING'], returns: 'BOOL' },
    ([text, prefix], context) => {
      context.spend(prefix.length);
      return text.startsWith(prefix);
    },
  ),
  define(
    { name: 'endsWith', method: true, params: ['STRING', 'STRING'], returns: 'BOOL' },
    ([text, suffix], context) => {
      context.spend(suffix.length);
      return text.endsWith(suffix);
    },
  ),
  define({ name: 'emptyStringMap', params: [], returns: 'STRING_MAP' }, () => new Map()),
  define({ name: 'toLower', params: ['STRING'], returns: 'STRING' }, ([text], context) => {
    context.spend(text.length);
    return text.toLowerCase();
  }),
  define({ name: 'reverse', params: ['STRING'], returns: 'STRING' }, ([text], context) => {
    context.spend(text.length);
    return reversed(text);
  }),
  define({ name: 'reverse', method: true, params: ['STRING'], returns: 'STRING' }, ([text], context) => {
    context.spend(text.length);
    return reversed(text);
  }),
];

const CEXL_ONLY: readonly FunctionType[] = [
  define({ name: 'size', params: ['STRING'], returns: 'INT64', only: 'CEXL' }, ([text], context) => {
    context.spend(text.length);
    return BigInt(utf8Length(text));
  }),
];

/** In bytes. */
function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** In CEL, strings consist of code points. */
function celString<R extends ValueType, const P extends readonly ValueType[]>(
  name: string,
  params: P,
  returns: R,
  call: (text: string, args: readonly Value[]) => TypeOf[R],
): FunctionType {
  return {
    name,
    method: true,
    params: ['STRING', ...params],
    returns,
    only: 'CEL',
    call: ([text, ...args], context) => {
      context.spend((text as string).length);
      return call(text as string, args);
    },
  };
}

function indexIn(text: readonly string[], index: Value | undefined): number {
  const at = Number(index as bigint);
  if (at < 0 || at > text.length) throw new EvaluationError(`index ${at} is not in the string`);
  return at;
}

const codePoints = (text: string): bigint => BigInt([...text].length);
/** The index in code points of an index in UTF-16 units. */
const pointsBefore = (text: string, at: number): bigint => (at < 0 ? -1n : codePoints(text.slice(0, at)));

const CEL_STRINGS: readonly FunctionType[] = [
  define({ name: 'size', params: ['STRING'], returns: 'INT64', only: 'CEL' }, ([text], context) => {
    context.spend(text.length);
    return codePoints(text);
  }),
  celString('size', [], 'INT64', codePoints),
  celString('contains', ['STRING'], 'BOOL', (text, [part]) => text.includes(part as string)),
  celString('charAt', ['INT64'], 'STRING', (text, [index]) => [...text][indexIn([...text], index)] ?? ''),
  celString('indexOf', ['STRING'], 'INT64', (text, [part]) => pointsBefore(text, text.indexOf(part as string))),
  celString('lastIndexOf', ['STRING'], 'INT64', (text, [part]) => pointsBefore(text, text.lastIndexOf(part as string))),
  celString('lowerAscii', [], 'STRING', (text) => text.replace(/[A-Z]+/g, (part) => part.toLowerCase())),
  celString('upperAscii', [], 'STRING', (text) => text.replace(/[a-z]+/g, (part) => part.toUpperCase())),
  celString('trim', [], 'STRING', (text) => text.trim()),
  celString('substring', ['INT64'], 'STRING', (text, [from]) => {
    const points = [...text];
    return points.slice(indexIn(points, from)).join('');
  }),
  celString('substring', ['INT64', 'INT64'], 'STRING', (text, [from, to]) => {
    const points = [...text];
    const [start, end] = [indexIn(points, from), indexIn(points, to)];
    if (start > end) throw new EvaluationError(`the substring ends before it starts, at ${end}`);
    return points.slice(start, end).join('');
  }),
];

const NANOS_PER_SECOND = 1_000_000_000n;

/** Rounds down, as calendars do before 1970. */
const secondsOf = (nanos: bigint): bigint =>
  (nanos - (((nanos % NANOS_PER_SECOND) + NANOS_PER_SECOND) % NANOS_PER_SECOND)) / NANOS_PER_SECOND;

function int64(value: bigint): bigint {
  if (BigInt.asIntN(64, value) !== value) throw new EvaluationError('the number is not in the range of INT64');
  return value;
}

function intOf(text: string): bigint | undefined {
  return /^[-+]?\d{1,19}$/.test(text) ? int64(BigInt(text.replace('+', ''))) : undefined;
}

function doubleOf(text: string): number | undefined {
  return /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,5})?$/.test(text) ? Number(text) : undefined;
}

const CONVERSIONS: readonly FunctionType[] = [
  converter({ name: 'duration', returns: 'DURATION', only: 'CEL' }, 'a duration such as "1.5s"', durationOf),
  converter({ name: 'int', returns: 'INT64', only: 'CEL' }, 'a whole number', intOf),
  converter({ name: 'double', returns: 'DOUBLE', only: 'CEL' }, 'a number', doubleOf),
  define({ name: 'int', params: ['DOUBLE'], returns: 'INT64', only: 'CEL' }, ([value]) => {
    if (!Number.isFinite(value)) throw new EvaluationError('the number is not in the range of INT64');
    return int64(BigInt(Math.trunc(value)));
  }),
  define({ name: 'int', params: ['INT64'], returns: 'INT64', only: 'CEL' }, ([value]) => value),
  define({ name: 'int', params: ['TIMESTAMP'], returns: 'INT64', only: 'CEL' }, ([{ nanos }]) => secondsOf(nanos)),
  define({ name: 'double', params: ['INT64'], returns: 'DOUBLE', only: 'CEL' }, ([value]) => Number(value)),
  define({ name: 'double', params: ['DOUBLE'], returns: 'DOUBLE', only: 'CEL' }, ([value]) => value),
  define({ name: 'string', params: ['STRING'], returns: 'STRING', only: 'CEL' }, ([value]) => value),
  define({ name: 'string', params: ['INT64'], returns: 'STRING', only: 'CEL' }, ([value]) => String(value)),
  define({ name: 'string', params: ['DOUBLE'], returns: 'STRING', only: 'CEL' }, ([value]) => String(value)),
  define({ name: 'string', params: ['BOOL'], returns: 'STRING', only: 'CEL' }, ([value]) => String(value)),
  define({ name: 'string', params: ['TIMESTAMP'], returns: 'STRING', only: 'CEL' }, ([value]) => timestampText(value)),
  define({ name: 'string', params: ['DURATION'], returns: 'STRING', only: 'CEL' }, ([value]) => durationText(value)),
];

/** Parts of timestamps in UTC: https://github.com/google/cel-spec/blob/master/doc/langdef.md#datetime-functions. */
const PARTS: readonly (readonly [name: string, part: (date: Date) => number])[] = [
  ['getFullYear', (date) => date.getUTCFullYear()],
  ['getMonth', (date) => date.getUTCMonth()],
  ['getDate', (date) => date.getUTCDate()],
  ['getDayOfMonth', (date) => date.getUTCDate() - 1],
  ['getDayOfWeek', (date) => date.getUTCDay()],
  ['getDayOfYear', (date) => Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000)],
  ['getHours', (date) => date.getUTCHours()],
  ['getMinutes', (date) => date.getUTCMinutes()],
  ['getSeconds', (date) => date.getUTCSeconds()],
  ['getMilliseconds', (date) => date.getUTCMilliseconds()],
];
const UNITS: readonly (readonly [name: string, nanos: bigint])[] = [
  ['getHours', 3600n * NANOS_PER_SECOND],
  ['getMinutes', 60n * NANOS_PER_SECOND],
  ['getSeconds', NANOS_PER_SECOND],
  ['getMilliseconds', 1_000_000n],
];

const TIMES: readonly FunctionType[] = [
  ...PARTS.map(([name, part]) =>
    define({ name, method: true, params: ['TIMESTAMP'], returns: 'INT64', only: 'CEL' }, ([{ nanos }]) => {
      const millis = Number(secondsOf(nanos) * 1000n + (nanos - secondsOf(nanos) * NANOS_PER_SECOND) / 1_000_000n);
      return BigInt(part(new Date(millis)));
    }),
  ),
  ...UNITS.map(([name, unit]) =>
    define({ name, method: true, params: ['DURATION'], returns: 'INT64', only: 'CEL' }, ([{ nanos }]) => nanos / unit),
  ),
];

export const FUNCTIONS: readonly FunctionType[] = [...SHARED, ...CEXL_ONLY, ...CEL_STRINGS, ...CONVERSIONS, ...TIMES];
