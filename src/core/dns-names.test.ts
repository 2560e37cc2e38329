import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDnsLabel, isDnsSubdomain } from './dns-names.ts';

const ROWS: readonly (readonly [name: string, isLabel: boolean, isSubdomain: boolean])[] = [
  ['a', true, true],
  ['a-1', true, true],
  ['0', true, true],
  ['a'.repeat(63), true, true],
  // As in Kubernetes, the labels of a subdomain have no limit of their own.
  ['a'.repeat(64), false, true],
  ['a.b', false, true],
  [`${'a.'.repeat(126)}a`, false, true],
  [`${'a.'.repeat(126)}ab`, false, false],
  ['', false, false],
  ['A', false, false],
  ['-a', false, false],
  ['a-', false, false],
  ['a_b', false, false],
  ['a..b', false, false],
  ['a-.b', false, false],
  ['a.-b', false, false],
  ['.a', false, false],
  ['a.', false, false],
  ['a\n', false, false],
  ['\u212a', false, false],
];

for (const [name, isLabel, isSubdomain] of ROWS) {
  test(`${JSON.stringify(name.slice(0, 20))} of ${name.length} characters`, () => {
    assert.deepEqual([isDnsLabel(name), isDnsSubdomain(name)], [isLabel, isSubdomain]);
  });
}
