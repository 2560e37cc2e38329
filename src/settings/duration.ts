/**
 * Durations in Go's form (`1m0s`, `100ms`, `1.5h`), which every flag and variable uses. Inside the programs a duration
 * is a number of milliseconds, as timers take it. Parsing and formatting go through whole nanoseconds, so that a
 * duration is shown exactly as the user wrote it.
 */

import { usageError } from './errors.ts';

const NS_PER_MS = 1_000_000n;

/** The largest duration Go can hold, 2^63 - 1 ns. Istio's defaults use it to say "no limit". */
const MAX_NS = (1n << 63n) - 1n;

const UNIT_NS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n, // U+00B5 micro sign
  μs: 1_000n, // U+03BC Greek mu: both are in use and Go reads both
  ms: NS_PER_MS,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};

/**
 * Reads a Go duration and returns milliseconds, with fractions down to a nanosecond. The largest duration
 * (`2562047h47m16.854775807s`) means "no limit" and returns `Infinity`. Throws a `CtlError` of one line for a string
 * that is not a duration, has no unit, or is too large.
 */
export function parseDuration(text: string): number {
  const ns = parseNanoseconds(text);
  if (ns === MAX_NS) return Number.POSITIVE_INFINITY;
  // Split, because the nanoseconds of some years exceed 2^53: their milliseconds stay exact.
  return Number(ns / NS_PER_MS) + Number(ns % NS_PER_MS) / Number(NS_PER_MS);
}

function parseNanoseconds(text: string): bigint {
  const refuse = (why: string): never => {
    throw usageError(`not a duration like 1m0s or 100ms: ${why}`);
  };
  const sign = /^[+-]/.exec(text)?.[0] ?? '';
  const body = text.slice(sign.length);
  if (body === '0') return 0n;
  if (body === '') return refuse('it is empty');

  let total = 0n;
  const part = /(\d*)(?:\.(\d*))?([a-zµμ]+)/y;
  while (part.lastIndex < body.length) {
    const match = part.exec(body);
    const [, whole = '', fraction = '', unit = ''] = match ?? [];
    if (match === null) return refuse(/\d$/.test(body) ? 'a number has no unit' : 'it is not a number with a unit');
    if (whole === '' && fraction === '') return refuse('a unit has no number');
    const unitNs = UNIT_NS[unit];
    if (unitNs === undefined) return refuse(`unit ${JSON.stringify(unit)} is not one of ns, us, ms, s, m, h`);
    // Digits beyond a nanosecond are cut off, as in Go. No unit uses more than 20 of them.
    const digits = fraction.slice(0, 20);
    total += BigInt(whole || '0') * unitNs + (BigInt(digits || '0') * unitNs) / 10n ** BigInt(digits.length);
    if (total > MAX_NS) return refuse('it is too large');
  }
  return sign === '-' ? -total : total;
}

/** Writes milliseconds as Go prints a duration: `1m0s`, `100ms`, `0s`; `Infinity` as the largest duration. */
export function formatDuration(ms: number): string {
  if (Number.isNaN(ms)) throw usageError('NaN is not a duration');
  if (ms < 0) return `-${formatDuration(-ms)}`;
  const ns = toNanoseconds(ms);
  if (ns === 0n) return '0s';
  if (ns < 1_000n) return `${ns}ns`;
  if (ns < NS_PER_MS) return `${decimal(ns, 1_000n)}µs`;
  if (ns < 1_000_000_000n) return `${decimal(ns, NS_PER_MS)}ms`;
  const minute = 60_000_000_000n;
  const hours = ns / (60n * minute);
  const minutes = (ns / minute) % 60n;
  const seconds = `${decimal(ns % minute, 1_000_000_000n)}s`;
  if (hours > 0n) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0n ? `${minutes}m${seconds}` : seconds;
}

function toNanoseconds(ms: number): bigint {
  if (ms >= Number(MAX_NS / NS_PER_MS)) return MAX_NS;
  const whole = Math.trunc(ms);
  return BigInt(whole) * NS_PER_MS + BigInt(Math.round((ms - whole) * Number(NS_PER_MS)));
}

/** `value / unit` in decimals without trailing zeros; `unit` is a power of ten. */
function decimal(value: bigint, unit: bigint): string {
  const rest = (value % unit)
    .toString()
    .padStart(unit.toString().length - 1, '0')
    .replace(/0+$/, '');
  return rest === '' ? `${value / unit}` : `${value / unit}.${rest}`;
}
