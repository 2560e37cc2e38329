/** The reference documents are what the tables say today. `UPDATE_REFERENCE=1` rewrites them. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { referencePages } from './reference.ts';

const FOLDER = join(import.meta.dirname, '../../../docs/reference');
const UPDATE = process.env.UPDATE_REFERENCE === '1';
const HOW = 'run: UPDATE_REFERENCE=1 npm test -- unit docs/reference';

for (const [file, text] of referencePages()) {
  test(`docs/reference/${file} is current`, () => {
    if (UPDATE) {
      mkdirSync(FOLDER, { recursive: true });
      writeFileSync(join(FOLDER, file), text);
    }
    assert.equal(readFileSync(join(FOLDER, file), 'utf8'), text, HOW);
  });
}

test('the folder has no other documents', () => {
  assert.deepEqual(readdirSync(FOLDER).sort(), [...referencePages().keys()].sort());
});
