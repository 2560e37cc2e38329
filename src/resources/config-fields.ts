/**
 * Fields of configuration files that the schema does not know, or that this version does not act on. An unknown field
 * that resembles a known one is an error: without it the default would allow what the author meant to forbid
 * (`outboundTraficPolicy`).
 */
import type { z } from 'zod';
import { fieldPath, type ValidationError } from './parsing/issues.ts';
import { resembles } from './parsing/resembles.ts';

type Schema = z.core.$ZodType;

/** The first unknown field that resembles a known field which is absent; undefined when there is none. */
export function misspeltField(
  schema: Schema,
  data: unknown,
  unknown: readonly PropertyKey[][],
): ValidationError | undefined {
  for (const path of unknown) {
    const field = String(path.at(-1));
    const siblings = fieldsOf(schemaAt(schema, path.slice(0, -1)));
    const given = valueAt(data, path.slice(0, -1));
    const meant = siblings.find((name) => resembles(field, name) && !Object.hasOwn(given, name));
    if (meant !== undefined) return { path: path.map(step), message: `unknown field, did you mean ${meant}?` };
  }
  return undefined;
}

/** The names of those `fields` that have another value than the default. */
export function withoutEffect<T extends object>(
  value: T,
  defaults: T,
  fields: readonly (keyof T & string)[],
): string | undefined {
  const given = fields.filter((field) => JSON.stringify(value[field]) !== JSON.stringify(defaults[field]));
  return given.length === 0 ? undefined : `fields that this version does not support: ${given.join(', ')}`;
}

/** The warning about fields that are not read. */
export function unreadFields(unknown: readonly PropertyKey[][]): string | undefined {
  if (unknown.length === 0) return undefined;
  return `ignored unknown fields: ${unknown.map(fieldPath).sort().join(', ')}`;
}

function step(key: PropertyKey): string | number {
  return typeof key === 'number' ? key : String(key);
}

function valueAt(data: unknown, path: readonly PropertyKey[]): object {
  let at = data;
  for (const key of path) {
    at = typeof at === 'object' && at !== null ? (at as Readonly<Record<PropertyKey, unknown>>)[key] : undefined;
  }
  return typeof at === 'object' && at !== null ? at : {};
}

/** The schema inside optional and default wrappers. */
function unwrapped(schema: Schema): z.core.$ZodTypes['_zod']['def'] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  return 'innerType' in def && def.innerType !== undefined ? unwrapped(def.innerType) : def;
}

function schemaAt(schema: Schema, path: readonly PropertyKey[]): Schema | undefined {
  let at: Schema | undefined = schema;
  for (const key of path) {
    if (at === undefined) return undefined;
    const def = unwrapped(at);
    if (def.type === 'object') at = def.shape[String(key)];
    else if (def.type === 'array') at = def.element;
    else at = def.type === 'record' ? def.valueType : undefined;
  }
  return at;
}

function fieldsOf(schema: Schema | undefined): string[] {
  if (schema === undefined) return [];
  const def = unwrapped(schema);
  return def.type === 'object' ? Object.keys(def.shape) : [];
}
