import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import * as fc from '../../core/testing/properties.ts';
import { compiledSchema, REFUSED } from './compiled-schema.ts';
import { SCHEMAS } from './schemas.ts';

/**
 * Checks that the compiled schema refuses exactly what the schema refuses and otherwise returns the same, keys in
 * order.
 */
function agrees(schema: z.ZodType, value: unknown): void {
  const slow = schema.safeParse(value);
  const quick = compiledSchema(schema)(value);
  if (!slow.success) assert.equal(quick, REFUSED, JSON.stringify(value));
  else {
    assert.deepEqual(quick, slow.data);
    assert.equal(JSON.stringify(quick), JSON.stringify(slow.data));
  }
}

const text = fc.constantFrom('a', '', '1s', '1.5h', 'TCP', '10.0.0.1', '*');
const other = fc.oneof(
  text,
  fc.constantFrom(-1, 0, 80, 1.5, 2 ** 33),
  fc.boolean(),
  fc.constant(null),
  fc.constant({}),
);
const key = fc.constantFrom('a', 'istio', 'security.istio.io/tlsMode', '__proto__', 'constructor');

/** Values that a schema mostly accepts: occasionally a field is missing, unknown, or of another type. */
function valuesFor(schema: z.core.$ZodType, depth = 0): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 60, arbitrary: goodFor(schema, depth) }, { weight: 1, arbitrary: other });
}

function goodFor(schema: z.core.$ZodType, depth: number): fc.Arbitrary<unknown> {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'string':
      return text;
    case 'number':
      return fc.constantFrom(0, 1, 80, 65_535);
    case 'boolean':
      return fc.boolean();
    case 'enum':
      return fc.constantFrom(...Object.values(def.entries));
    case 'array':
      return fc.array(valuesFor(def.element, depth + 1), { maxLength: depth > 6 ? 0 : 3 });
    case 'record':
      return fc.dictionary(key, valuesFor(def.valueType, depth + 1), { maxKeys: 3, noNullPrototype: true });
    case 'object':
      return objectFor(def, depth);
    case 'optional':
    case 'default':
      return goodFor(def.innerType, depth);
    case 'pipe':
      return goodFor((def.in as z.core.$ZodTypes)._zod.def.type === 'transform' ? def.out : def.in, depth);
    case 'union':
      return fc.oneof(...def.options.map((option) => goodFor(option, depth)));
    default:
      return other;
  }
}

function objectFor(def: z.core.$ZodObjectDef, depth: number): fc.Arbitrary<unknown> {
  const fields = Object.entries(def.shape);
  const required = fields.filter(([, field]) => field._zod.optin === undefined).map(([name]) => name);
  const shape = Object.fromEntries(fields.map(([name, field]) => [name, valuesFor(field, depth + 1)]));
  const whole = fc.record(shape, { requiredKeys: required, noNullPrototype: true });
  // Few fields at a time, as in documents, in any order; rarely an unknown one, or none of the required ones.
  const some = fc.tuple(whole, fc.infiniteStream(fc.nat(9))).map(([value, dice]) => {
    const kept = Object.entries(value).filter(([name]) => required.includes(name) || (dice.next().value ?? 0) < 3);
    const turned = dice.next().value === 0 ? kept.reverse() : kept;
    return Object.fromEntries(dice.next().value === 0 && depth > 4 ? [...turned, ['unknownField', 1]] : turned);
  });
  return fc.oneof({ weight: 60, arbitrary: some }, { weight: 1, arbitrary: fc.constant({}) });
}

for (const [kind, schema] of Object.entries(SCHEMAS)) {
  test(`property: the compiled schema of ${kind} agrees with its schema`, () => {
    fc.assert(
      fc.property(valuesFor(schema), (value) => agrees(schema, value)),
      { numRuns: 150 },
    );
  });
}

test('schemas of all sorts agree, also those that are left to the library', () => {
  const schemas = [
    z.int().min(1).max(5),
    z.int().gt(1),
    z.number(),
    z.number().max(3),
    z.coerce.number(),
    z.coerce.string(),
    z.string().min(2),
    z.string().max(1),
    z.string().regex(/^a/),
    z.string().max(1).regex(/^a/g),
    z.string().max(1).trim(),
    z.string().max(1).toUpperCase().regex(/A/),
    z.string().max(1).startsWith('a'),
    z.string().regex(/a$/).max(2).regex(/^a/),
    z.iso.datetime(),
    z.boolean().refine((value) => value),
    z.enum(['a', 'b']),
    z.array(z.string()).max(1),
    z.array(z.string().optional()),
    z.record(z.enum(['a', 'b']), z.string()),
    z.record(z.string().max(1), z.string()),
    z.looseObject({ a: z.string() }),
    z.object({ a: z.string() }).catchall(z.number()),
    z.object({ a: z.string().optional().default('x'), b: z.string().default('y').optional() }),
    z.object({ a: z.preprocess((value) => value ?? 'none', z.string()) }),
    z.strictObject({ a: z.string().optional() }).refine((value) => value.a !== 'b'),
    z.string().transform((value) => (value === '' ? undefined : value)),
    z.object({ a: z.string().transform((value) => value.length) }),
    z.union([z.int(), z.string()]).nullable(),
    z.json(),
  ];
  const values: unknown[] = [0, 1, 2, 5, 6, 1.5, -0, 2 ** 60, NaN, Infinity, '', 'a', 'ab', '2020-09-01T12:00:00Z'];
  values.push(true, false, null, undefined, [], ['a'], ['a', 'b'], [undefined], [1], {}, { a: 'a' }, { a: 'b' });
  values.push({ a: undefined }, { a: null }, { a: 1 }, { b: 'b' }, { a: 'a', b: 1 }, { b: 1, a: 'a' }, new Map(), []);
  values.push({ a: 'x', b: undefined }, JSON.parse('{"__proto__": "a", "a": "b"}'), JSON.parse('{"__proto__": 1}'));
  for (const schema of schemas) {
    for (const value of values) {
      const slow = schema.safeParse(value);
      const quick = compiledSchema(schema)(value);
      if (!slow.success) assert.equal(quick, REFUSED);
      else if (quick !== REFUSED) assert.deepEqual(quick, slow.data);
    }
  }
});
