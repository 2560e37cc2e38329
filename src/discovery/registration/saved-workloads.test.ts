import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tempDir } from '../../../test/harness/files.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { SavedWorkloads } from './saved-workloads.ts';

const workload = (namespace: string, address: string) => ({
  node: {
    namespace,
    workloadGroup: 'web',
    identity: { trustDomain: 'cluster.local', namespace, serviceAccount: 'web' },
    addresses: [address],
    network: '',
    locality: '',
    serviceAccount: 'web',
  },
  problem: '',
});

/** A file of these workloads whose writes are timed by the test. */
async function open(t: TestContext, current: ReturnType<typeof workload>[]) {
  const directory = await tempDir(t);
  const clock = fakeClock();
  const warnings: string[] = [];
  const warn = (line: string) => void warnings.push(line);
  const log = { debug: () => {}, info: () => {}, warn, error: warn };
  const saved = new SavedWorkloads({ directory, clock, log, current: () => current });
  return { saved, directory, clock, warnings };
}

test('changes are collected, and written at most every five seconds', async (t) => {
  const { saved, clock, directory } = await open(t, [workload('shop', '10.0.0.7')]);
  for (let index = 0; index < 100; index++) saved.changed();
  assert.deepEqual(clock.pending(), [1_000]);
  clock.pass(1_000);
  for (let index = 0; index < 100; index++) saved.changed();
  assert.deepEqual(clock.pending(), [5_000]);
  await saved.close();
  assert.equal((await stat(join(directory, 'registered-workloads.json'))).mode & 0o777, 0o600);
  assert.deepEqual(await saved.load(), [workload('shop', '10.0.0.7')]);
});

test('a namespace with too many workloads does not displace those of others, and one warning says so', async (t) => {
  const many = Array.from({ length: 5_002 }, (_, index) => workload('shop', `10.0.${index >> 8}.${index & 255}`));
  const { saved, warnings } = await open(t, [...many, workload('other', '10.1.0.1')]);
  for (let round = 0; round < 2; round++) {
    saved.changed();
    await saved.close();
  }
  const loaded = await saved.load();
  assert.equal(loaded.length, 5_001);
  assert.equal(loaded.at(-1)?.node.namespace, 'other');
  assert.equal(warnings.length, 1);
  assert.match(
    warnings[0] ?? '',
    /^2 registered workloads are not saved for a restart: at most 5000 \(4194304 bytes\) of a namespace/,
  );
});

test('workloads that state much use the share of their namespace only, and the file can be read again', async (t) => {
  const locality = 'x'.repeat(4_000);
  const large = Array.from({ length: 9_000 }, (_, index) => {
    const { node, problem } = workload(`large-${index % 5}`, `10.0.${index >> 8}.${index & 255}`);
    return { node: { ...node, locality }, problem };
  });
  const { saved, warnings } = await open(t, [...large, workload('other', '10.1.0.1')]);
  saved.changed();
  await saved.close();
  const loaded = await saved.load();
  assert.equal(loaded.at(-1)?.node.namespace, 'other');
  assert.ok(loaded.length > 4_000 && loaded.length < 9_000, String(loaded.length));
  assert.equal(warnings.length, 1, warnings.join('\n'));
});
