/**
 * The two documents that configure injection: `config` (policy, selectors, templates) and `values` (what templates
 * read). `config` is strict. `values` may have any field, because templates of users read them; a field that resembles
 * one of the built-in templates is refused as a misspelling.
 */
import { z } from 'zod';
import { CtlError } from '../../core/errors.ts';
import { didYouMean } from '../../core/nearest.ts';
import { fieldPath, type ParsedConfig, resembles, withoutNulls } from '../../resources/index.ts';
import { parseConfigText } from '../../sources/index.ts';
import type { ConfigText } from '../types.ts';
import { problemOf } from './problem.ts';
import { labelSelector, type Selector } from './selectors.ts';
import { BUILT_IN_TEMPLATES } from './templates/built-in.ts';
import { compileTemplate, type InjectionTemplate } from './templates/template.ts';
import { defaultValues, type Values, valuesSchema } from './values.ts';

/** The configuration of injection with compiled templates. */
export interface InjectionConfig {
  /** Whether Pods are injected if nothing else decides about them. */
  readonly isEnabled: boolean;
  /** Names of templates for Pods without the annotation. */
  readonly defaultTemplates: readonly string[];
  /** By name. */
  readonly templates: ReadonlyMap<string, InjectionTemplate>;
  /** Names that mean several templates. */
  readonly aliases: ReadonlyMap<string, readonly string[]>;
  readonly alwaysInject: readonly Selector[];
  readonly neverInject: readonly Selector[];
  /** Annotations that each injected Pod gets. */
  readonly injectedAnnotations: Readonly<Record<string, string>>;
}

const templateName = z
  .string()
  .regex(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, 'expected a name of letters, digits, -, _ and .');

const configSchema = z.strictObject({
  policy: z.enum(['enabled', 'disabled']).default('enabled'),
  defaultTemplates: z.array(templateName).default(['sidecar']),
  templates: z.record(templateName, z.string()).default({}),
  aliases: z.record(templateName, z.array(templateName)).default({}),
  alwaysInjectSelector: z.array(labelSelector).default([]),
  neverInjectSelector: z.array(labelSelector).default([]),
  injectedAnnotations: z.record(z.string(), z.string()).default({}),
});

/** @throws CtlError `invalid_argument` with the origin of the text, line and field */
export function injectionConfig(text: ConfigText | undefined): InjectionConfig {
  const origin = text?.origin ?? 'built-in templates';
  const config = text === undefined ? configSchema.parse({}) : parsed(text, configSchema);
  const texts = new Map([...Object.entries(BUILT_IN_TEMPLATES), ...Object.entries(config.templates)]);
  const templates = new Map(
    [...texts].map(([name, template]) => [
      name,
      compileTemplate(name, template, { file: origin, field: fieldPath(['templates', name]) }),
    ]),
  );
  const aliases = new Map(Object.entries(config.aliases));
  checkNames(config, templates, aliases, origin);
  return {
    isEnabled: config.policy === 'enabled',
    defaultTemplates: config.defaultTemplates,
    templates,
    aliases,
    alwaysInject: config.alwaysInjectSelector,
    neverInject: config.neverInjectSelector,
    injectedAnnotations: config.injectedAnnotations,
  };
}

/** An alias means templates, and not other aliases. */
function checkNames(
  { defaultTemplates, aliases: given }: z.output<typeof configSchema>,
  templates: ReadonlyMap<string, unknown>,
  aliases: ReadonlyMap<string, unknown>,
  file: string,
): void {
  const check = (names: readonly string[], known: readonly string[], field: string): void => {
    for (const [index, name] of names.entries()) {
      if (known.includes(name)) continue;
      const message = `unknown template ${JSON.stringify(name)}${didYouMean(name, known)}`;
      throw new CtlError('invalid_argument', message, { file, field: `${field}[${index}]` });
    }
  };
  check(defaultTemplates, [...templates.keys(), ...aliases.keys()], 'defaultTemplates');
  for (const [name, names] of Object.entries(given)) {
    const field = fieldPath(['aliases', name]);
    if (templates.has(name)) throw new CtlError('invalid_argument', 'is the name of a template', { file, field });
    check(names, [...templates.keys()], field);
  }
}

/** @throws CtlError `invalid_argument` with the origin of the text, line and field */
export function injectionValues(text: ConfigText | undefined): Values {
  return text === undefined ? defaultValues() : parsed(text, valuesSchema, misspelt);
}

function parsed<T extends z.ZodType>(
  { text, origin }: ConfigText,
  schema: T,
  check: (raw: unknown, schema: z.core.$ZodType) => readonly string[] | undefined = () => undefined,
): z.output<T> {
  const result = parseConfigText(text, (written): ParsedConfig<z.output<T>> => {
    // A chart removes a default by null.
    const raw = withoutNulls(written ?? {});
    const read = schema.safeParse(raw, { reportInput: true });
    if (!read.success) return { problem: problemOf(read.error) };
    const path = check(raw, schema);
    const message = `unknown field${didYouMean(path?.at(-1) ?? '', namesAt(schema, path?.slice(0, -1) ?? []))}`;
    return path === undefined ? { value: read.data } : { problem: { path, message } };
  });
  if ('value' in result) return result.value;
  const { field, message, line } = result.refusal;
  const location = { file: origin, ...(line === undefined ? {} : { line }), field };
  throw new CtlError('invalid_argument', message.split('\n')[0] ?? '', location);
}

/** Path of the first field that resembles a known field that is absent from the same object. */
function misspelt(raw: unknown, schema: z.core.$ZodType): readonly string[] | undefined {
  const shape = shapeOf(schema);
  if (shape === undefined || typeof raw !== 'object' || raw === null) return undefined;
  for (const [name, value] of Object.entries(raw)) {
    const known = shape[name];
    const meant = Object.keys(shape).some((each) => resembles(name, each) && !Object.hasOwn(raw, each));
    if (known === undefined && meant) return [name];
    const below = known === undefined ? undefined : misspelt(value, known);
    if (below !== undefined) return [name, ...below];
  }
  return undefined;
}

function namesAt(schema: z.core.$ZodType, path: readonly string[]): string[] {
  const [first, ...rest] = path;
  const shape = shapeOf(schema) ?? {};
  const next = first === undefined ? undefined : shape[first];
  return next === undefined ? Object.keys(shape) : namesAt(next, rest);
}

function shapeOf(schema: z.core.$ZodType): Readonly<Record<string, z.core.$ZodType>> | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if ('innerType' in def && def.innerType !== undefined) return shapeOf(def.innerType);
  return def.type === 'object' ? def.shape : undefined;
}
