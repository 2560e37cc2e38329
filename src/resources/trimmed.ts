/**
 * Removes most errors from an invalid value. The library reports each error of a value with everything that a message
 * could need: a list of 100,000 wrong items took half a second. A document with so many errors is refused because of
 * the first of them.
 */
import type { z } from 'zod';
import { compiledSchema, REFUSED } from './kinds/compiled-schema.ts';

/** Maximum number of wrong entries of all lists and maps that are kept. */
export const MOST_WRONG = 100;

type Schema = z.core.$ZodType;

/** The value with at most that many wrong entries: lists and maps end there. The result is invalid if the value is. */
export function trimmed(schema: Schema, value: unknown): unknown {
  return new Trimming().of(schema, value);
}

class Trimming {
  #left = MOST_WRONG;

  of(schema: Schema, value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    const { def } = (schema as z.core.$ZodTypes)._zod;
    switch (def.type) {
      case 'optional':
      case 'default':
        return this.of(def.innerType, value);
      case 'pipe':
        return this.of(def.in, value);
      case 'array':
        return Array.isArray(value) ? this.#list(def.element, value) : value;
      case 'record':
        return this.#map(() => def.valueType, value);
      case 'object':
        return this.#map((key) => (Object.hasOwn(def.shape, key) ? def.shape[key] : undefined), value);
      default:
        return value;
    }
  }

  #list(element: Schema, items: readonly unknown[]): readonly unknown[] {
    const kept: unknown[] = [];
    for (const item of items) {
      if (this.#left <= 0) break;
      kept.push(this.#entry(element, item));
    }
    return kept;
  }

  /** @param schemaOf undefined for an unknown key */
  #map(schemaOf: (key: string) => Schema | undefined, map: object): object {
    if (Array.isArray(map)) return map;
    const kept: [string, unknown][] = [];
    for (const [key, value] of Object.entries(map)) {
      if (this.#left <= 0) break;
      const schema = schemaOf(key);
      kept.push([key, schema === undefined ? value : this.#entry(schema, value)]);
    }
    return Object.fromEntries(kept);
  }

  #entry(schema: Schema, value: unknown): unknown {
    if (compiledSchema(schema)(value) !== REFUSED) return value;
    const before = this.#left;
    const rest = this.of(schema, value);
    // An entry is not counted in addition to the wrong entries that it contains.
    if (this.#left === before) this.#left--;
    return rest;
  }
}
