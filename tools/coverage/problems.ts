/**
 * Part of the lint stage: every field of the schemas is shown by a test, or is in a list with the reason why not.
 * `test/field-coverage.test.ts` tests that the table is right.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Elsewhere, readElsewhere } from './elsewhere.ts';
import { allFields } from './schemas.ts';
import { readTable, type Shown } from './table.ts';

const HOW = 'UPDATE_COVERAGE=1 npm test -- golden field-coverage';

export interface Coverage {
  readonly fields: readonly string[];
  readonly table: ReadonlyMap<string, Shown>;
  readonly elsewhere: readonly Elsewhere[];
}

export function readCoverage(): Coverage {
  return { fields: allFields(), table: readTable(), elsewhere: readElsewhere() };
}

/** How a field is shown: as the object that it is in, where that is reported as a whole. */
export function shownAs({ table }: Pick<Coverage, 'table'>, field: string): Shown | undefined {
  const own = table.get(field);
  if (own !== undefined) return own;
  for (let place = field; place.includes('.'); ) {
    place = place.slice(0, place.lastIndexOf('.'));
    const around = table.get(place.replace(/(?:\[\]|\{\})+$/, ''));
    if (around !== undefined) return around.showing === 'reported' ? around : undefined;
  }
  return undefined;
}

/** @param folder the repository */
export function coverageProblems(folder: string, coverage = readCoverage()): string[] {
  const { fields, table, elsewhere } = coverage;
  const known = new Set(fields);
  const excused = new Set(elsewhere.flatMap((entry) => entry.fields));
  return [
    ...fields
      .filter((field) => shownAs(coverage, field) === undefined && !excused.has(field))
      .map((field) => `${field}: no test shows this field: set it in a golden test, then ${HOW}`),
    ...[...table.keys()].filter((field) => !known.has(field)).map((field) => `${field}: no schema has it: ${HOW}`),
    ...[...excused]
      .filter((field) => !known.has(field) || shownAs(coverage, field) !== undefined)
      .map((field) => `${field}: it needs no reason in tools/coverage/elsewhere.json: ${HOW}`),
    ...elsewhere.flatMap(({ tests = [] }) => tests.flatMap((test) => missingTest(folder, test))),
  ];
}

function missingTest(folder: string, test: string): string[] {
  const colon = test.indexOf(': ');
  const [file, title] = [test.slice(0, colon), test.slice(colon + 2)];
  const found = existsSync(join(folder, file)) && readFileSync(join(folder, file), 'utf8').includes(`'${title}'`);
  return found ? [] : [`tools/coverage/elsewhere.json: there is no test ${test}`];
}
