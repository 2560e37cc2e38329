/**
 * Marks schema fields that contain secrets. Code that shows a resource (debug pages) or quotes one of its values
 * (messages about refused documents) reads the marks, so that a field is marked only where it is defined.
 */
import type { z } from 'zod';

/**
 * Which part of a field is secret:
 *
 * - `value`: every string in it
 * - `url`: user, password and query of a URL
 * - `keySet`: the members of a JSON Web Key Set that are not public
 * - `byName`: values by name (headers, query parameters, metadata) whose name suggests credentials
 * - `condition`: values of an object `{key, values, notValues}` whose key names a header that may be a credential
 * - `envoyPatch`: fields that Envoy's messages mark as sensitive, in an object `{applyTo, match, patch}`
 */
export type SecretField = 'value' | 'url' | 'keySet' | 'byName' | 'condition' | 'envoyPatch';

type Schema = z.core.$ZodType;

const marks = new WeakMap<Schema, SecretField>();

/** The same schema, marked. */
export function secret<T extends Schema>(kind: SecretField, schema: T): T {
  marks.set(schema, kind);
  return schema;
}

/** The mark of a schema itself. */
export function secretFieldOf(schema: Schema): SecretField | undefined {
  return marks.get(schema);
}

/** The schema inside its wrappers: optional, default, transformation. */
export function coreOf(schema: Schema): z.core.$ZodTypes {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (secretFieldOf(schema) !== undefined) return schema as z.core.$ZodTypes;
  switch (def.type) {
    case 'optional':
    case 'nullable':
    case 'default':
      return coreOf(def.innerType);
    case 'pipe':
      return coreOf(def.in._zod.def.type === 'transform' ? def.out : def.in);
    default:
      return schema as z.core.$ZodTypes;
  }
}

/** Members of marked objects that contain their secrets. */
const SECRET_MEMBERS: Readonly<Partial<Record<SecretField, ReadonlySet<string | number>>>> = {
  condition: new Set(['values', 'notValues']),
  envoyPatch: new Set(['patch', 'match']),
};

/** Whether the value at a path may be secret, or part of a secret. */
export function isSecretPath(schema: Schema, path: readonly (string | number)[]): boolean {
  const core = coreOf(schema);
  const mark = secretFieldOf(core);
  if (mark !== undefined) {
    const members = SECRET_MEMBERS[mark];
    return members === undefined || (path[0] !== undefined && members.has(path[0]));
  }
  const [step, ...rest] = path;
  if (step === undefined) return false;
  const inner = innerOf(core, step);
  return inner !== undefined && isSecretPath(inner, rest);
}

function innerOf(core: z.core.$ZodTypes, step: string | number): Schema | undefined {
  const { def } = core._zod;
  switch (def.type) {
    case 'object':
      return Object.hasOwn(def.shape, step) ? def.shape[step] : undefined;
    case 'array':
      return def.element;
    case 'record':
      return def.valueType;
    default:
      return undefined;
  }
}
