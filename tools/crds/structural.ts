/**
 * From the schema of a kind to the structural OpenAPI schema of its CustomResourceDefinition.
 *
 * An API server checks what such a schema can say: types, enumerations, number ranges, required fields, and rules in
 * CEL. Whatever else `resources/validate` checks, ctl-discovery reports when it reads the object. Fields that no schema
 * knows are pruned by the API server; strict field validation, which kubectl asks for, refuses them.
 *
 * Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
 */
import { z } from 'zod';
import { coreOf, DURATION_PATTERN, duration, headerMatch, stringMatch } from '../../src/resources/index.ts';
import { pathRules, type Rule, STRING_MATCH_RULES } from './rules.ts';

type ZodSchema = z.core.$ZodType;

export interface StructuralSchema {
  type?: string;
  properties?: Record<string, StructuralSchema>;
  required?: string[];
  items?: StructuralSchema;
  additionalProperties?: StructuralSchema;
  nullable?: boolean;
  'x-kubernetes-validations'?: readonly Rule[];
  [keyword: string]: unknown;
}

/** Without what only makes a field optional. */
function unwrapped(schema: ZodSchema): ZodSchema {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  return def.type === 'optional' || def.type === 'default' ? unwrapped(def.innerType) : schema;
}

function objectSchema(shape: Readonly<Record<string, ZodSchema>>, at: (step: string) => Position): StructuralSchema {
  const fields = Object.entries(shape);
  const required = fields.filter(([, field]) => field._zod.optin !== 'optional').map(([name]) => name);
  return {
    type: 'object',
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(fields.map(([name, field]) => [name, convert(field, at(`.${name}`))])),
  };
}

/** Where in a kind a schema is, such as `VirtualService` `.http[].match[]`. */
interface Position {
  readonly kind: string;
  readonly path: string;
}

/** Type, limits and enumeration of a scalar. */
function scalarSchema(schema: ZodSchema): StructuralSchema {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', target: 'openapi-3.0' });
  return json as StructuralSchema;
}

function convertCore(schema: ZodSchema, { kind, path }: Position): StructuralSchema {
  if (schema === duration) return { type: 'string', maxLength: 64, pattern: DURATION_PATTERN.replace('^', '^0$|^') };
  const at = (step: string): Position => ({ kind, path: `${path}${step}` });
  const core = coreOf(schema);
  const { def } = core._zod;
  switch (def.type) {
    case 'object':
      return objectSchema(def.shape, at);
    case 'array':
      return { type: 'array', items: convert(def.element, at('[]')) };
    case 'record':
      // A value of any JSON type: a piece of an Envoy message.
      if (def.valueType._zod.def.type === 'lazy')
        return { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
      return { type: 'object', additionalProperties: convert(def.valueType, at('{}')) };
    case 'string':
    case 'number':
    case 'boolean':
    case 'enum':
      return scalarSchema(core);
    default:
      throw new Error(`${kind} ${path}: no structural schema for ${def.type}`);
  }
}

function convert(schema: ZodSchema, position: Position): StructuralSchema {
  const bare = unwrapped(schema);
  const structural = convertCore(bare, position);
  const rules = [...matchRules(bare), ...pathRules(position.kind, position.path)];
  return {
    ...structural,
    // A header that must be there, whatever its value.
    ...(bare === headerMatch ? { nullable: true } : {}),
    ...(rules.length === 0 ? {} : { 'x-kubernetes-validations': rules }),
  };
}

function matchRules(schema: ZodSchema): readonly Rule[] {
  if (schema === stringMatch) return STRING_MATCH_RULES.exactlyOne;
  return schema === headerMatch ? STRING_MATCH_RULES.atMostOne : [];
}

/** The schema of `spec`. */
export function structuralSchema(kind: string, schema: ZodSchema): StructuralSchema {
  return convert(schema, { kind, path: '' });
}
