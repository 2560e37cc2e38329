/**
 * Durations and timestamps between their protobuf form (seconds and nanoseconds) and their JSON form
 * (https://protobuf.dev/programming-guides/json/).
 */

export interface SecondsAndNanos {
  readonly seconds: bigint;
  readonly nanos: number;
}

/** Bounds of google.protobuf.Duration: about 10,000 years. */
const MAX_DURATION_SECONDS = 315_576_000_000n;
const MIN_TIMESTAMP_SECONDS = -62_135_596_800n;
const MAX_TIMESTAMP_SECONDS = 253_402_300_799n;

/** Fraction digits in groups of three, none when zero: the canonical form. */
function fraction(nanos: number): string {
  if (nanos === 0) return '';
  const digits = String(nanos).padStart(9, '0');
  return `.${digits.replace(/(?:000){1,2}$/, '')}`;
}

/** `1.5s`, `-0.001s`. */
export function printDuration({ seconds, nanos }: SecondsAndNanos): string {
  const negative = seconds < 0n || nanos < 0;
  const whole = seconds < 0n ? -seconds : seconds;
  return `${negative ? '-' : ''}${whole}${fraction(Math.abs(nanos))}s`;
}

/** Other units, in nanoseconds: those of Go, which Istio accepts in EnvoyFilters. */
const UNITS: Readonly<Record<string, bigint>> = {
  h: 3_600_000_000_000n,
  m: 60_000_000_000n,
  s: 1_000_000_000n,
  ms: 1_000_000n,
  us: 1000n,
  ns: 1n,
};

/** `500ms`, `1m30s`: whole numbers of units, largest first. */
function parseUnits(text: string): SecondsAndNanos | undefined {
  if (!/^(?=\d)(?:\d{1,9}h)?(?:\d{1,9}m(?!s))?(?:\d{1,9}s)?(?:\d{1,9}ms)?(?:\d{1,9}us)?(?:\d{1,9}ns)?$/.test(text)) {
    return undefined;
  }
  const parts = [...text.matchAll(/(\d+)([a-z]+)/g)];
  const nanos = parts.reduce((sum, [, count = '0', unit = '']) => sum + BigInt(count) * (UNITS[unit] ?? 0n), 0n);
  return { seconds: nanos / 1_000_000_000n, nanos: Number(nanos % 1_000_000_000n) };
}

/** Undefined when the string is not a duration. */
export function parseDuration(text: string): SecondsAndNanos | undefined {
  const match = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(text);
  if (match === null) return parseUnits(text);
  const seconds = BigInt(match[2] ?? '0');
  const nanos = Number((match[3] ?? '').padEnd(9, '0'));
  if (seconds > MAX_DURATION_SECONDS) return undefined;
  // `0 - nanos` and not `-nanos`: the wire format has no negative zero.
  return match[1] === '-' ? { seconds: -seconds, nanos: 0 - nanos } : { seconds, nanos };
}

/** RFC 3339 in UTC: `2024-01-02T03:04:05.600Z`. */
export function printTimestamp({ seconds, nanos }: SecondsAndNanos): string {
  const second = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  return `${second}${fraction(nanos)}Z`;
}

/** Undefined when the string is not an RFC 3339 time within the years 1 to 9999. */
export function parseTimestamp(text: string): SecondsAndNanos | undefined {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (match === null) return undefined;
  const milliseconds = Date.parse(`${match[1]}${match[3]}`);
  if (Number.isNaN(milliseconds)) return undefined;
  const seconds = BigInt(milliseconds) / 1000n;
  if (seconds < MIN_TIMESTAMP_SECONDS || seconds > MAX_TIMESTAMP_SECONDS) return undefined;
  return { seconds, nanos: Number((match[2] ?? '').padEnd(9, '0')) };
}
