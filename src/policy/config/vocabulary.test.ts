import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FUNCTIONS } from '../../expressions/functions.ts';
import { STANDARD_ATTRIBUTES } from './vocabulary.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../../docs/policy-language.md'), 'utf8');

test('the page of expressions names every attribute', () => {
  assert.deepEqual(
    [...STANDARD_ATTRIBUTES.keys()].filter((name) => !PAGE.includes(`\`${name}\``)),
    [],
  );
});

test('the page of expressions names every function', () => {
  const partsOfTimes = /^get/;
  const names = new Set(FUNCTIONS.map(({ name }) => name).filter((name) => !partsOfTimes.test(name)));
  assert.deepEqual(
    [...names].filter((name) => !new RegExp(`[\`.]${name}[(\`]`).test(PAGE)),
    [],
  );
});
