/** Timestamps and durations as strings. */
import type { Duration, Timestamp } from './types.ts';

const NANOS: ReadonlyMap<string, bigint> = new Map([
  ['ns', 1n],
  ['us', 1000n],
  ['µs', 1000n],
  ['μs', 1000n],
  ['ms', 1_000_000n],
  ['s', 1_000_000_000n],
  ['m', 60_000_000_000n],
  ['h', 3_600_000_000_000n],
]);
const PARTS = /(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)/y;
const MAX_NANOS = 2n ** 63n - 1n;

/**
 * A duration as Go writes it (https://pkg.go.dev/time#ParseDuration): numbers with units, such as `1h2m` or `-1.5s`, or
 * `0`; undefined for other strings.
 */
export function durationOf(text: string): Duration | undefined {
  const negative = text.startsWith('-');
  const rest = /^[-+]/.test(text) ? text.slice(1) : text;
  if (rest === '0') return { kind: 'duration', nanos: 0n };
  // More digits are not in the range of 64 bits.
  if (rest === '' || rest.length > 100) return undefined;
  let nanos = 0n;
  let at = 0;
  while (at < rest.length) {
    PARTS.lastIndex = at;
    const [whole, digits = '', fraction = '', unit = ''] = PARTS.exec(rest) ?? [];
    if (whole === undefined || (digits === '' && fraction === '')) return undefined;
    const scale = NANOS.get(unit) ?? 0n;
    nanos += BigInt(digits === '' ? '0' : digits) * scale;
    if (fraction !== '') nanos += (BigInt(fraction) * scale) / 10n ** BigInt(fraction.length);
    at += whole.length;
  }
  return nanos > MAX_NANOS ? undefined : { kind: 'duration', nanos: negative ? -nanos : nanos };
}

/** The shortest way to write a duration in seconds: `1.5s`. */
export function durationText({ nanos }: Duration): string {
  return `${decimal(nanos)}s`;
}

function decimal(nanos: bigint): string {
  const size = nanos < 0n ? -nanos : nanos;
  const fraction = String(size % 1_000_000_000n)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return `${nanos < 0n ? '-' : ''}${size / 1_000_000_000n}${fraction === '' ? '' : `.${fraction}`}`;
}

const RFC_3339 = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:[.,](\d+))?(Z|[+-]\d{2}:\d{2})$/;

/** A timestamp of RFC 3339 with up to 9 digits of a second; undefined for other strings. */
export function timestampOf(text: string): Timestamp | undefined {
  const [, moment, fraction = '', zone = ''] = RFC_3339.exec(text.slice(0, 64)) ?? [];
  if (moment === undefined || text.length > 64) return undefined;
  const millis = Date.parse(`${moment}${zone}`);
  if (Number.isNaN(millis) || !isCalendarDate(moment)) return undefined;
  const nanos = BigInt(millis) * 1_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, '0'));
  return { kind: 'timestamp', nanos };
}

/** Date.parse accepts the 31st of every month, and hour 24. */
function isCalendarDate(moment: string): boolean {
  const date = new Date(`${moment}Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(moment);
}

/** RFC 3339 in UTC. */
export function timestampText({ nanos }: Timestamp): string {
  const millis = nanos / 1_000_000n - (nanos % 1_000_000n < 0n ? 1n : 0n);
  const fraction = nanos - millis * 1_000_000n;
  const date = new Date(Number(millis));
  if (Number.isNaN(date.getTime())) return 'invalid time';
  const text = date.toISOString();
  const digits = `${text.slice(20, 23)}${String(fraction).padStart(6, '0')}`.replace(/0+$/, '');
  return `${text.slice(0, 19)}${digits === '' ? '' : `.${digits}`}Z`;
}
