/**
 * The fields of the schemas, and where a value sets them. A field is a property of an object of a schema; where one
 * object is at several places of a schema (the traffic policy of a rule, of a port and of a subset), its properties are
 * fields once, named by the first place.
 */
import type { z } from 'zod';
import { coreOf } from '../../src/resources/index.ts';

type Schema = z.core.$ZodType;
export type Path = readonly (string | number)[];

/** A place of a value that sets a field. */
export interface Setting {
  readonly field: string;
  readonly path: Path;
  readonly schema: Schema;
}

/** The fields of a schema by name, such as `VirtualService.http[].match[].uri`. */
export class FieldTable {
  /** Object of the schema → property → name. */
  readonly #names = new Map<Schema, ReadonlyMap<string, string>>();
  readonly #root: Schema;
  readonly #others: ReadonlyMap<Schema, FieldTable>;

  /**
   * @param root what the names begin with, such as a kind
   * @param others tables of schemas that this one may contain: their fields are not repeated
   */
  constructor(root: string, schema: Schema, others: readonly FieldTable[] = []) {
    this.#root = schema;
    this.#others = new Map(others.map((table) => [table.#root, table]));
    this.#add(schema, root);
  }

  names(): readonly string[] {
    return [...this.#names.values()].flatMap((properties) => [...properties.values()]);
  }

  #add(schema: Schema, place: string): void {
    for (const { core, step } of partsOf(schema)) {
      if (step !== undefined) this.#add(core, `${place}${step}`);
      else if (!this.#names.has(core) && !this.#others.has(core)) this.#addObject(core, place);
    }
  }

  #addObject(object: Schema, place: string): void {
    const shape = shapeOf(object);
    // Known before its properties, which may contain it.
    this.#names.set(object, new Map(Object.keys(shape).map((name) => [name, `${place}.${name}`])));
    for (const [name, schema] of Object.entries(shape)) this.#add(schema, `${place}.${name}`);
  }

  /** Every place of a value that sets a field, outer ones first. */
  *settings(value: unknown): Iterable<Setting> {
    yield* this.#settingsIn(this.#root, value, []);
  }

  *#settingsIn(schema: Schema, value: unknown, path: Path): Iterable<Setting> {
    if (typeof value !== 'object' || value === null) return;
    for (const { core, step } of partsOf(schema)) {
      if (step !== undefined) {
        if ((step === '[]') !== Array.isArray(value)) continue;
        for (const [key, item] of Object.entries(value)) {
          yield* this.#settingsIn(core, item, [...path, step === '[]' ? Number(key) : key]);
        }
        continue;
      }
      const other = this.#others.get(core);
      if (other !== undefined) {
        yield* other.#settingsIn(core, value, path);
        continue;
      }
      for (const [name, inner] of Object.entries(shapeOf(core))) {
        const field = this.#names.get(core)?.get(name);
        if (field === undefined || !Object.hasOwn(value, name)) continue;
        yield { field, path: [...path, name], schema: inner };
        yield* this.#settingsIn(inner, Reflect.get(value, name), [...path, name]);
      }
    }
  }
}

interface Part {
  readonly core: Schema;
  /** How a value gets there: an item of a list, a member of a map; undefined: it is an object itself. */
  readonly step?: '[]' | '{}';
}

/** The objects of a schema, or what its lists and maps contain; nothing for scalars. */
function partsOf(schema: Schema): readonly Part[] {
  const core = innermost(schema);
  const { def } = core._zod;
  switch (def.type) {
    case 'object':
      return [{ core }];
    case 'array':
      return [{ core: def.element, step: '[]' }];
    case 'record':
      return [{ core: def.valueType, step: '{}' }];
    case 'union':
      return def.options.flatMap(partsOf);
    default:
      return [];
  }
}

/** Also through marks of secret fields, at which `coreOf` stops. */
function innermost(schema: Schema): z.core.$ZodTypes {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type === 'pipe') return innermost(def.in._zod.def.type === 'transform' ? def.out : def.in);
  return def.type === 'optional' || def.type === 'default' || def.type === 'nullable'
    ? innermost(def.innerType)
    : coreOf(schema);
}

function shapeOf(object: Schema): Readonly<Record<string, Schema>> {
  const { def } = (object as z.core.$ZodTypes)._zod;
  return def.type === 'object' ? def.shape : {};
}

/** Other values for a field, of which one may be valid and mean something else. */
export function otherValues(schema: Schema, value: unknown): readonly unknown[] {
  const core = innermost(schema);
  const { def } = core._zod;
  if (typeof value === 'boolean') return [!value];
  if (typeof value === 'number') return [value + 1, value + 7, value * 2, 1];
  if (typeof value === 'string') {
    if (def.type === 'enum') return Object.values(def.entries).filter((each) => each !== value);
    return [`${value}x`, `x${value}`, '7s', '192.0.2.77', 'x.test', '*', 'ABORTED'];
  }
  if (typeof value !== 'object' || value === null) return [];
  // One item or property less, or one with another value.
  return Object.entries(value).flatMap(([key, each]) => {
    const item = def.type === 'array' ? def.element : def.type === 'record' ? def.valueType : shapeOf(core)[key];
    const others = item === undefined || typeof each === 'object' ? [] : otherValues(item, each);
    return [changedAt(value, [key]), ...others.map((other) => changedAt(value, [key], { value: other }))];
  });
}

/** A copy of a value without what is at a path, or with another value there. */
export function changedAt(root: unknown, path: Path, other?: { readonly value: unknown }): unknown {
  const copy: unknown = structuredClone(root);
  let at: unknown = copy;
  for (const step of path.slice(0, -1)) at = Reflect.get(at as object, step);
  const last = path.at(-1) ?? '';
  if (other !== undefined) Reflect.set(at as object, last, other.value);
  else if (Array.isArray(at)) at.splice(Number(last), 1);
  else Reflect.deleteProperty(at as object, last);
  return copy;
}
