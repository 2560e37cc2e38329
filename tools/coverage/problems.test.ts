import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { FieldTable } from './fields.ts';
import { createProbe } from './probe.ts';
import { coverageProblems } from './problems.ts';
import { nextTable, type Shown, wrongEntries } from './table.ts';

const REPOSITORY = join(import.meta.dirname, '../..');

const pool = z.strictObject({ size: z.number().optional() });
const schema = z.strictObject({
  host: z.string(),
  pool: pool.optional(),
  ports: z.array(z.strictObject({ number: z.number(), pool: pool.optional() })).optional(),
  idle: z.boolean().optional(),
  silent: z.string().optional(),
});
const table = new FieldTable('Kind', schema);

const shown = (showing: Shown['showing']): Shown => ({ showing, by: 'one', since: '0.1.0' });

test('an object that is at several places has its fields once', () => {
  assert.deepEqual(table.names(), [
    'Kind.host',
    'Kind.pool',
    'Kind.ports',
    'Kind.idle',
    'Kind.silent',
    'Kind.pool.size',
    'Kind.ports[].number',
    'Kind.ports[].pool',
  ]);
  const set = [...table.settings({ host: 'a', ports: [{ number: 1, pool: { size: 2 } }] })];
  assert.deepEqual(
    set.map(({ field, path }) => `${field} at ${path.join('/')}`),
    [
      'Kind.host at host',
      'Kind.ports at ports',
      'Kind.ports[].number at ports/0/number',
      'Kind.ports[].pool at ports/0/pool',
      'Kind.pool.size at ports/0/pool/size',
    ],
  );
});

test('a field is shown by what comes of it, and not by its name', async () => {
  const input = { host: 'a', pool: { size: 2 }, idle: true, silent: 'kind pool size' };
  const probe = createProbe(
    { name: 'one', file: 'one.yaml' },
    input,
    (value) => table.settings(value),
    (value) => {
      const { host, pool: own, idle } = schema.parse(value);
      return { configuration: `${host} ${own?.size}`, reports: idle === true ? 'idle has no effect' : '' };
    },
  );
  const found = await nextTable(new Map(), table.names(), [probe]);
  assert.deepEqual([...found].map(([field, { showing }]) => `${field} ${showing}`).sort(), [
    'Kind.host effect',
    'Kind.idle reported',
    'Kind.pool effect',
    'Kind.pool.size effect',
  ]);
  const claims = new Map([...found, ['Kind.silent', shown('effect')] as const]);
  assert.deepEqual([...(await wrongEntries(claims, [probe])).keys()], ['Kind.silent']);
});

test('a new field needs a test or a reason, and a field that has one needs no reason', () => {
  const coverage = {
    fields: ['Kind.a', 'Kind.b', 'Kind.whole', 'Kind.whole.part', 'Kind.whole.list[].part', 'Kind.new'],
    table: new Map([
      ['Kind.a', shown('effect')],
      ['Kind.gone', shown('effect')],
      ['Kind.whole', shown('reported')],
    ]),
    elsewhere: [
      { reason: 'read elsewhere', tests: ['tools/coverage/nosuch.test.ts: no test'], fields: ['Kind.a', 'Kind.b'] },
    ],
  };
  const problems = coverageProblems(REPOSITORY, coverage).map((line) => line.split(': ', 2).join(': '));
  assert.deepEqual(problems, [
    'Kind.new: no test shows this field',
    'Kind.gone: no schema has it',
    'Kind.a: it needs no reason in tools/coverage/elsewhere.json',
    'tools/coverage/elsewhere.json: there is no test tools/coverage/nosuch.test.ts',
  ]);
});
