/**
 * The table of fields and the tests that show them is right: for each field, the named input gives other configuration
 * without it, or the field is reported to its author. `UPDATE_COVERAGE=1` rewrites the table, and
 * `docs/reference/fields.md`.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { readElsewhere, writeElsewhere } from '../tools/coverage/elsewhere.ts';
import { allProbes } from '../tools/coverage/probes.ts';
import { shownAs } from '../tools/coverage/problems.ts';
import { allFields } from '../tools/coverage/schemas.ts';
import { nextTable, readTable, writeTable, wrongEntries } from '../tools/coverage/table.ts';
import { writeReference } from '../tools/docs/problems.ts';

const REPOSITORY = join(import.meta.dirname, '..');

test('every field of the table is shown by the input that it names', async () => {
  if (process.env.UPDATE_COVERAGE === '1') {
    const fields = allFields();
    const table = await nextTable(readTable(), fields, allProbes());
    writeTable(table);
    writeElsewhere(readElsewhere(), (field) => fields.includes(field) && shownAs({ table }, field) === undefined);
    writeReference(REPOSITORY);
    return;
  }
  const wrong = await wrongEntries(readTable(), allProbes());
  assert.deepEqual(
    [...wrong],
    [],
    'set the field in a golden test, or UPDATE_COVERAGE=1 npm test -- golden field-coverage',
  );
});
