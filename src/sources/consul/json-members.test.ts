/** Long JSON in members: equal to JSON.parse for whole documents, and an error for anything else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { readElements, readEntries } from './json-members.ts';

const TURNS = { now: () => 0, pause: async () => undefined };

async function elements(text: string): Promise<unknown[]> {
  const found: unknown[] = [];
  await readElements(Buffer.from(text), TURNS, (element) => found.push(element));
  return found;
}

async function entries(text: string): Promise<[string, unknown][]> {
  const found: [string, unknown][] = [];
  await readEntries(Buffer.from(text), TURNS, (name, value) => found.push([name, value]));
  return found;
}

test('members are those of JSON.parse', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.jsonValue()),
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.boolean(),
      async (list, object, spaced) => {
        const write = (value: unknown) => JSON.stringify(value, null, spaced ? 2 : 0);
        assert.deepEqual(await elements(write(list)), JSON.parse(write(list)));
        assert.deepEqual(await entries(write(object)), Object.entries(JSON.parse(write(object))));
      },
    ),
    { numRuns: 300 },
  );
});

test('a part of a document, and anything around it, is an error', async () => {
  const text = JSON.stringify([{ a: ['x"]', { b: '\\' }] }, 1, 'two']);
  for (let end = 0; end < text.length; end++) await assert.rejects(elements(text.slice(0, end)), /not valid JSON/);
  for (const bad of ['null', '{}', '[1]]', '[1],', '[,]', '[1,]', '[1}', '{"a":1}', '[1] x', '[tru]', '']) {
    await assert.rejects(elements(bad), /not valid JSON/, bad);
  }
  for (const bad of ['[]', '{"a":1', '{"a":1,}', '{"a"}', '{1:2}', '{}}'])
    await assert.rejects(entries(bad), /not valid JSON/, bad);
});

test('other work has its turn', async () => {
  let [now, pauses] = [0, 0];
  const turns = {
    now: () => now++,
    pause: async () => {
      pauses++;
    },
  };
  await readElements(Buffer.from(JSON.stringify(Array.from({ length: 100 }, (_, n) => n))), turns, () => undefined);
  assert.ok(pauses >= 10, `${pauses}`);
});
