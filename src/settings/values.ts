/**
 * Parsers of values on the command line and in the environment. Each throws an `Error` with a one-line message for an
 * invalid value.
 */
import { messageOf } from '../core/errors.ts';
import { formatDuration, parseDuration } from './duration.ts';
import { usageError } from './errors.ts';
import type { FlagSpec, FlagValue } from './flag-table.ts';

/** A boolean in one of Go's forms. */
export function parseBoolean(text: string): boolean {
  if (['1', 't', 'T', 'true', 'TRUE', 'True'].includes(text)) return true;
  if (['0', 'f', 'F', 'false', 'FALSE', 'False'].includes(text)) return false;
  throw usageError('not true or false');
}

/**
 * Whether a variable that enables a feature when set counts as set: any value except an empty one or a form of false.
 */
export function isEnabled(text: string): boolean {
  return !['', '0', 'f', 'F', 'false', 'FALSE', 'False'].includes(text.trim());
}

export function parseInteger(
  text: string,
  min = Number.MIN_SAFE_INTEGER,
  max = Number.MAX_SAFE_INTEGER,
  unit?: string,
): number {
  if (!/^[+-]?\d+$/.test(text))
    throw usageError(unit === undefined ? 'not a whole number' : `not a whole number of ${unit}`);
  return inRange(Number(text), min, max, (bound) => (unit === undefined ? String(bound) : `${bound} ${unit}`));
}

/** A Go duration as milliseconds. `min` is in milliseconds; messages show it as a duration. */
export function parseDurationFrom(text: string, min = Number.NEGATIVE_INFINITY): number {
  return inRange(parseDuration(text), min, Number.POSITIVE_INFINITY, formatDuration);
}

export function parseFloating(text: string, min?: number, max?: number): number {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) throw usageError('not a number');
  return inRange(Number(text), min ?? Number.NEGATIVE_INFINITY, max);
}

function inRange(
  value: number,
  min: number,
  max = Number.POSITIVE_INFINITY,
  shown: (bound: number) => string = String,
): number {
  if (value < min) throw usageError(`less than ${shown(min)}`);
  if (value > max) throw usageError(`more than ${shown(max)}`);
  return value;
}

/**
 * The value of a flag given as `text`. `before` is its value from earlier occurrences: a list grows, any other flag
 * takes the last value. Throws a `CtlError` that names the flag and `text`.
 */
export function parseFlagValue(name: string, spec: FlagSpec, text: string, before: FlagValue | undefined): FlagValue {
  try {
    return readValue(spec, text, before);
  } catch (error) {
    throw usageError(`invalid value ${JSON.stringify(text)} for flag --${name}: ${messageOf(error)}`);
  }
}

function readValue(spec: FlagSpec, text: string, before: FlagValue | undefined): FlagValue {
  switch (spec.type) {
    case 'bool':
      return checked(parseBoolean(text), spec.check);
    case 'string':
      if (text !== spec.default) oneOf(text, spec.values);
      return checked(text, spec.check);
    case 'int':
      return checked(parseInteger(text, spec.min, undefined, spec.unit), spec.check);
    case 'uint16':
      return checked(parseInteger(text, spec.min ?? 0, 65_535), spec.check);
    case 'duration':
      return checked(parseDurationFrom(text, spec.min), spec.check);
    case 'stringSlice':
    case 'stringArray': {
      const items = spec.type === 'stringArray' ? [text] : splitItems(text);
      for (const item of items) oneOf(item, spec.values);
      return checked([...(Array.isArray(before) ? before : []), ...items], spec.check);
    }
  }
}

/** The value of a flag that is not given. */
export function defaultFlagValue(spec: FlagSpec): FlagValue {
  if (spec.type === 'duration') return parseDuration(spec.default);
  return spec.type === 'string' ? (spec.whenNotGiven ?? spec.default) : spec.default;
}

/** Comma-separated items without the empty ones. */
function splitItems(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

function oneOf(text: string, values: readonly string[] | undefined): void {
  if (values === undefined || values.includes(text)) return;
  throw usageError(`${JSON.stringify(text)} is not one of ${values.join(', ')}`);
}

function checked<V>(value: V, check: ((value: V) => void) | undefined): V {
  check?.(value);
  return value;
}
