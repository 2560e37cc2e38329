/** Reads the parameters of handlers and instances by the schema of their adapter or template. */
import type { z } from 'zod';
import { isObject } from '../../core/objects.ts';
import { type ValidationError, validationErrorsOf } from '../parsing/issues.ts';
import type { ADAPTERS, TEMPLATES } from '../schema/policy.ts';
import { ADAPTER_PARAMS, type AdapterParams, TEMPLATE_PARAMS, type TemplateParams } from '../schema/policy-params.ts';

/** Paths of errors start at the parameters. */
export type ReadParams<T> = { readonly params: T } | { readonly errors: readonly ValidationError[] };

export function adapterParams<A extends (typeof ADAPTERS)[number]>(
  adapter: A,
  params: unknown,
): ReadParams<AdapterParams<A>> {
  return readParams<AdapterParams<A>>(ADAPTER_PARAMS[adapter], params);
}

export function templateParams<T extends (typeof TEMPLATES)[number]>(
  template: T,
  params: unknown,
): ReadParams<TemplateParams<T>> {
  return readParams<TemplateParams<T>>(TEMPLATE_PARAMS[template], params);
}

function readParams<T>(schema: z.ZodType, params: unknown): ReadParams<T> {
  const read = schema.safeParse(camelCase(params ?? {}), { reportInput: true });
  return read.success ? { params: read.data as T } : { errors: validationErrorsOf(read.error.issues) };
}

/** Fields whose keys are names that users choose. */
const MAPS: ReadonlySet<string> = new Set(['dimensions', 'monitoredResourceDimensions', 'severityLevels', 'variables']);

function camelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCase);
  if (!isObject(value)) return value;
  const all: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    const camel = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    const name = Object.hasOwn(value, camel) ? key : camel;
    all[name] = MAPS.has(name) ? member : camelCase(member);
  }
  return all;
}
