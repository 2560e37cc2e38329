import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchAddresses } from './watch-addresses.ts';

/** Watches a machine with these addresses in successive periods. Gives the warnings and the number of checks. */
async function watched(reported: readonly string[], machine: readonly (readonly string[])[]) {
  const warnings: string[] = [];
  const ending = new AbortController();
  let looks = 0;
  const deps = {
    reported,
    current: () => machine[Math.min(looks++, machine.length - 1)] ?? [],
    sleep: async () => {
      if (looks >= machine.length) ending.abort();
    },
    log: { warn: (message: string) => void warnings.push(message) },
  };
  await watchAddresses(deps, ending.signal);
  return { warnings, looks };
}

test('the first address of a family that appears later causes one warning', async () => {
  const { warnings } = await watched(
    ['10.0.0.1'],
    [['10.0.0.1'], ['10.0.0.1', '10.0.0.2'], ['10.0.0.1', 'fd00::1'], []],
  );
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /an IPv6 address now \(fd00::1\).*does not listen on IPv6 until/);
});

test('further addresses of a served family, and removed ones, cause none', async () => {
  assert.deepEqual((await watched(['10.0.0.1'], [['10.0.0.1'], ['10.0.0.9'], []])).warnings, []);
  assert.deepEqual(await watched(['10.0.0.1', 'fd00::1'], [['10.0.0.1', 'fd00::1', 'fd00::2']]), {
    warnings: [],
    looks: 0,
  });
});
