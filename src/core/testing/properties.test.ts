import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const SCRIPT = `
  import * as fc from ${JSON.stringify(join(import.meta.dirname, 'properties.ts'))};
  const seen = [];
  fc.assert(fc.property(fc.integer(), (n) => { seen.push(n); }));
  fc.assert(fc.property(fc.integer(), (n) => { seen.push(n); }), { numRuns: 3 });
  await fc.assert(fc.asyncProperty(fc.integer(), async (n) => { seen.push(n); }), { numRuns: 5 });
  console.log(JSON.stringify([...seen, ...fc.sample(fc.integer(), 2)]));
`;

/** The values of three properties with 100, 3 and 5 runs, and two samples. */
async function valuesWith(env: NodeJS.ProcessEnv): Promise<readonly number[]> {
  const { PROPERTY_SEED: _, PROPERTY_RUNS: __, PROPERTY_PATH: ___, ...outer } = process.env;
  const options = { env: { ...outer, ...env } };
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', SCRIPT], options);
  return JSON.parse(stdout);
}

test('properties have equal values in each run of the tests, unless the environment chooses others', async () => {
  const values = await valuesWith({});
  assert.equal(values.length, 110);
  assert.deepEqual(await valuesWith({}), values);
  assert.notDeepEqual(await valuesWith({ PROPERTY_SEED: '2' }), values);
  assert.notDeepEqual(await valuesWith({ PROPERTY_SEED: 'random' }), await valuesWith({ PROPERTY_SEED: 'random' }));
});

test('PROPERTY_RUNS multiplies the runs of each property', async () => {
  assert.equal((await valuesWith({ PROPERTY_RUNS: '10' })).length, 1082);
  assert.equal((await valuesWith({ PROPERTY_RUNS: '0.1' })).length, 14);
});

test('wrong values are refused', async () => {
  await assert.rejects(valuesWith({ PROPERTY_SEED: 'many' }), /PROPERTY_SEED must be an integer or random: "many"/);
  await assert.rejects(valuesWith({ PROPERTY_RUNS: '-1' }), /PROPERTY_RUNS must be a factor above 0: "-1"/);
});
