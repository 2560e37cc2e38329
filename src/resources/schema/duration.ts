/** Durations in YAML, in Go's notation, which includes protobuf's JSON form (`1.5s`). */

const UNIT_MILLIS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** A duration with its units, as a regular expression that RE2 accepts as well. */
export const DURATION_PATTERN = '^[+-]?(?:(?:\\d+\\.?\\d*|\\.\\d+)(?:ns|us|µs|μs|ms|s|m|h))+$';
const WHOLE = new RegExp(DURATION_PATTERN);
const PART = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;
/** Maximum length of a string that is parsed: real durations are shorter. */
const MAX_LENGTH = 64;

/** The milliseconds of a duration; `undefined` for any other string. `0` needs no unit, as in Go. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  if (text.length > MAX_LENGTH || !WHOLE.test(text)) return undefined;
  let millis = 0;
  for (const [, amount = '', unit = ''] of text.matchAll(PART)) millis += Number(amount) * (UNIT_MILLIS[unit] ?? 0);
  return text.startsWith('-') ? -millis : millis;
}
