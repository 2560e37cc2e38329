/**
 * The fast path through a schema: it parses good values and reports no reasons for bad ones. Reading a directory of
 * thousands of valid documents is mostly schema validation, and the library records for each value everything that an
 * error message could need. Here a parser is built once from the schema itself, so that there is one definition.
 * Schemas that this file does not support are left to the library, value by value. After `REFUSED`, the caller uses the
 * schema to get the reasons.
 */
import type { z } from 'zod';

/** Returned when the schema may refuse the value. */
export const REFUSED = Symbol('refused');

/** Returns the schema's output for the value, or `REFUSED`. */
export type CompiledSchema = (value: unknown) => unknown;

type Schema = z.core.$ZodType;

const readers = new WeakMap<Schema, CompiledSchema>();

/** The fast parser of a schema. */
export function compiledSchema(schema: Schema): CompiledSchema {
  const known = readers.get(schema);
  if (known !== undefined) return known;
  const reader = makeReader(schema);
  readers.set(schema, reader);
  return reader;
}

function makeReader(schema: Schema): CompiledSchema {
  // The union of all schema classes; the type in a definition discriminates it.
  const { def } = (schema as z.core.$ZodTypes)._zod;
  const checks = def.checks ?? [];
  switch (def.type) {
    case 'string':
      return stringReader(schema, def, checks);
    case 'number':
      return numberReader(schema as z.core.$ZodNumber);
    case 'boolean':
      return def.coerce === true || checks.length > 0 ? byLibrary(schema) : readBoolean;
  }
  if (checks.length > 0) return byLibrary(schema);
  switch (def.type) {
    case 'enum': {
      const values: ReadonlySet<unknown> = new Set(Object.values(def.entries));
      return (value) => (values.has(value) ? value : REFUSED);
    }
    case 'array':
      return arrayReader(compiledSchema(def.element));
    case 'record':
      return recordReader(schema, def);
    case 'object':
      return objectReader(schema, def);
    case 'optional': {
      const { optin } = def.innerType._zod;
      const inner = compiledSchema(def.innerType);
      return optin === 'defaulted' ? byLibrary(schema) : (value) => (value === undefined ? undefined : inner(value));
    }
    case 'default': {
      const inner = compiledSchema(def.innerType);
      return (value) => (value === undefined ? def.defaultValue : (inner(value) ?? def.defaultValue));
    }
    case 'union':
      return unionReader(def.options.map(compiledSchema));
    case 'null':
      return (value) => (value === null ? null : REFUSED);
    case 'lazy':
      // Compiled when it is used, because the schema may be part of itself.
      return (value) => compiledSchema((schema as z.core.$ZodLazy)._zod.innerType)(value);
    case 'pipe': {
      const first = compiledSchema(def.in);
      const second = compiledSchema(def.out);
      return (value) => {
        const between = first(value);
        return between === REFUSED ? REFUSED : second(between);
      };
    }
    default:
      return byLibrary(schema);
  }
}

function byLibrary(schema: Schema): CompiledSchema {
  const context = { async: false } as const;
  return (value) => {
    const payload = schema._zod.run({ value, issues: [] }, context);
    return payload instanceof Promise || payload.issues.length > 0 ? REFUSED : payload.value;
  };
}

function readString(value: unknown): unknown {
  return typeof value === 'string' ? value : REFUSED;
}

function readBoolean(value: unknown): unknown {
  return typeof value === 'boolean' ? value : REFUSED;
}

/** Strings of limited length and with a pattern. */
function stringReader(
  schema: Schema,
  def: z.core.$ZodStringDef,
  checks: readonly z.core.$ZodCheck<never>[],
): CompiledSchema {
  if ('format' in def || def.coerce === true) return byLibrary(schema);
  let most = Number.POSITIVE_INFINITY;
  const patterns: RegExp[] = [];
  for (const check of checks) {
    const limit = (check as z.core.$ZodCheck)._zod.def as z.core.$ZodCheckMaxLengthDef | z.core.$ZodCheckRegexDef;
    if (limit.when !== undefined && limit.check !== 'max_length') return byLibrary(schema);
    if (limit.check === 'max_length') most = Math.min(most, limit.maximum);
    else if (
      limit.check === 'string_format' &&
      limit.format === 'regex' &&
      !limit.pattern.global &&
      !limit.pattern.sticky
    )
      patterns.push(limit.pattern);
    else return byLibrary(schema);
  }
  if (checks.length === 0) return readString;
  return (value) =>
    typeof value === 'string' && value.length <= most && patterns.every((pattern) => pattern.test(value))
      ? value
      : REFUSED;
}

/** Integers between bounds, which nearly all numbers are. */
function numberReader(schema: z.core.$ZodNumber): CompiledSchema {
  const { def } = schema._zod;
  let [least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  if (!('format' in def) || def.format !== 'safeint' || def.coerce === true) return byLibrary(schema);
  for (const check of def.checks ?? []) {
    const bound = (check as z.core.$ZodCheckGreaterThan | z.core.$ZodCheckLessThan)._zod.def;
    if (typeof bound.value !== 'number' || !bound.inclusive) return byLibrary(schema);
    if (bound.check === 'greater_than') least = Math.max(least, bound.value);
    else if (bound.check === 'less_than') most = Math.min(most, bound.value);
    else return byLibrary(schema);
  }
  return (value) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most ? value : REFUSED;
}

function arrayReader(element: CompiledSchema): CompiledSchema {
  return (value) => {
    if (!Array.isArray(value)) return REFUSED;
    const items: unknown[] = [];
    for (const item of value) {
      const read = element(item);
      if (read === REFUSED) return REFUSED;
      items.push(read);
    }
    return items;
  };
}

/** The output of the first option that accepts the value. */
function unionReader(options: readonly CompiledSchema[]): CompiledSchema {
  return (value) => {
    for (const option of options) {
      const read = option(value);
      if (read !== REFUSED) return read;
    }
    return REFUSED;
  };
}

function recordReader(schema: Schema, def: z.core.$ZodRecordDef): CompiledSchema {
  if (def.mode === 'loose' || compiledSchema(def.keyType) !== readString) return byLibrary(schema);
  const element = compiledSchema(def.valueType);
  return (value) => {
    if (!isPlain(value)) return REFUSED;
    const entries: Record<string, unknown> = {};
    for (const key of Object.keys(value)) {
      // Setting it would set the prototype; the library leaves it out as well.
      if (key === '__proto__') continue;
      const read = element(value[key]);
      if (read === REFUSED) return REFUSED;
      entries[key] = read;
    }
    return entries;
  };
}

interface Field {
  readonly key: string;
  readonly read: CompiledSchema;
  /** What happens if the field is absent: nothing, a default, or an error. */
  readonly absent: 'nothing' | 'default' | 'fault';
}

function objectReader(schema: Schema, def: z.core.$ZodObjectDef): CompiledSchema {
  const strict = def.catchall?._zod.def.type === 'never';
  const fields = Object.entries(def.shape).map(([key, inner]) => fieldOf(key, inner));
  if ((def.catchall !== undefined && !strict) || !fields.every((field) => field !== undefined))
    return byLibrary(schema);
  return (value) => {
    if (!isPlain(value)) return REFUSED;
    const content: Record<string, unknown> = {};
    let known = 0;
    for (const { key, read, absent } of fields) {
      const present = Object.hasOwn(value, key);
      if (present) known++;
      else if (absent === 'nothing') continue;
      else if (absent === 'fault') return REFUSED;
      const inner = read(value[key]);
      if (inner === REFUSED) return REFUSED;
      content[key] = inner;
    }
    return strict && known < Object.keys(value).length ? REFUSED : content;
  };
}

/** `undefined` for the rarer ways to be optional, which are left to the library. */
function fieldOf(key: string, schema: Schema): Field | undefined {
  const { optin, optout } = schema._zod;
  const absent =
    optin === undefined
      ? 'fault'
      : optin === 'defaulted' && optout === undefined
        ? 'default'
        : optin === 'optional' && optout === 'optional'
          ? 'nothing'
          : undefined;
  return absent === undefined ? undefined : { key, read: compiledSchema(schema), absent };
}

/** Whether a value is an object as YAML and JSON parsers create it. */
function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
