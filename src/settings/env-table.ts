/**
 * Tables of environment variables: their type, how they are read and how they are shown. A variable is defined once per
 * program, with the name of its setting. A variable with the same setting as a flag is used when the flag is not given.
 * A variable has an entry only when the program acts on it.
 */
import { messageOf } from '../core/errors.ts';
import { REDACTED } from '../core/redact.ts';
import { parseDuration } from './duration.ts';
import { usageError } from './errors.ts';
import { parseBoolean, parseDurationFrom, parseFloating, parseInteger } from './values.ts';

interface EnvBase {
  /** The setting's name in the program. */
  readonly setting: string;
  /** The description in the reference and in the output of `env`. */
  readonly meaning: string;
  /** The value may be a credential and is never shown. */
  readonly secret?: true;
}

type EnvSpec = EnvBase &
  (
    | { readonly type: 'string'; readonly default: string }
    | { readonly type: 'boolean'; readonly default: boolean }
    /** `unit`: what the number counts, for messages: `bytes`. */
    | { readonly type: 'integer'; readonly default: number; readonly min?: number; readonly unit?: string }
    | { readonly type: 'float'; readonly default: number; readonly min?: number; readonly max?: number }
    /** Written as a Go duration. Its value is milliseconds, or seconds with `unit`; `min` is milliseconds. */
    | { readonly type: 'duration'; readonly default: string; readonly min?: number; readonly unit?: 'seconds' }
  );

export type EnvTable = Readonly<Record<string, EnvSpec>>;

type EnvValue = string | boolean | number;

type ValueOf<S extends EnvSpec> = S['type'] extends 'string' ? string : S['type'] extends 'boolean' ? boolean : number;

/** The type of the settings that a table defines, by setting name. */
export type EnvValues<T extends EnvTable> = { readonly [N in keyof T as T[N]['setting']]: ValueOf<T[N]> };

/** Environment variables, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The values of the variables that are set, by setting name. An empty value counts as not set, because manifests often
 * set variables to nothing. Throws a `CtlError` that names the first variable with an invalid value.
 */
export function readEnv(table: EnvTable, env: Environment): ReadonlyMap<string, EnvValue> {
  const values = new Map<string, EnvValue>();
  for (const [name, spec] of Object.entries(table)) {
    const text = env[name];
    if (text === undefined || text === '') continue;
    try {
      values.set(spec.setting, parseValue(spec, text));
    } catch (error) {
      throw usageError(`invalid value ${JSON.stringify(text)} of variable ${name}: ${messageOf(error)}`);
    }
  }
  return values;
}

/** The default of every variable of a table, by setting name. */
export function envDefaults(table: EnvTable): ReadonlyMap<string, EnvValue> {
  return new Map(
    Object.values(table).map((spec) => [
      spec.setting,
      spec.type === 'duration' ? inUnit(parseDuration(spec.default), spec.unit) : spec.default,
    ]),
  );
}

/** The table as JSON: an array of `{name, type, default, meaning}`. Durations are strings. */
export function envDocument(table: EnvTable): string {
  const rows = Object.entries(table).map(([name, spec]) => ({
    name,
    type: spec.type,
    default: spec.default,
    meaning: spec.meaning,
  }));
  return `${JSON.stringify(rows, null, 2)}\n`;
}

/** The variables of the table that are set, for operators. Other variables are never shown: they may hold secrets. */
export function shownEnvironment(table: EnvTable, env: Environment): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [name, { secret }] of Object.entries(table)) {
    const value = env[name];
    if (value !== undefined) shown[name] = secret === true && value !== '' ? REDACTED : value;
  }
  return shown;
}

function parseValue(spec: EnvSpec, text: string): EnvValue {
  switch (spec.type) {
    case 'string':
      return text;
    case 'boolean':
      return parseBoolean(text);
    case 'integer':
      return parseInteger(text, spec.min, undefined, spec.unit);
    case 'float':
      return parseFloating(text, spec.min, spec.max);
    case 'duration':
      return inUnit(parseDurationFrom(text, spec.min), spec.unit);
  }
}

function inUnit(ms: number, unit: 'seconds' | undefined): number {
  return unit === 'seconds' ? ms / 1000 : ms;
}
