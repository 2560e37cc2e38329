/**
 * Part of the lint stage: no line of code has more than 120 columns. The formatter breaks statements, but neither
 * strings nor comments.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const MAX_COLUMNS = 120;

/** The formatter keeps the title of a test on the line of the call. */
const MAX_TITLE_COLUMNS = 140;
const TITLE = /^\s*(?:await )?(?:test|it|describe)\(['"`]/;

const SOURCES = [
  'src/**/*.ts',
  'tools/**/*.{ts,mjs}',
  'workers/**/*.ts',
  'proto/*.ts',
  'bench/**/*.{ts,mjs}',
  'test/**/*.{ts,mjs}',
];

/** Tables of documents, one document on each line. */
const TABLES = ['test/golden-harness/random-mesh-*.ts'];

/** A line that is one literal: a multi-line string, a regular expression, or a number. */
const LITERAL = /^\s*(?:(?:const \w+ = )?(['"`]).*\\n.*\1[,;]?|[\w :=]*\/.*\/[a-z]*[,;]?|\w+: 0x[0-9a-f]+n,)$/;

/** In tests, a document or message on one line as well. */
const LITERAL_OF_TEST = /^\s*(?:const \w+ = )?(['"`]).*\1[,;]?$/;

function isTooWide(file: string, line: string): boolean {
  const columns = [...line].length;
  if (columns <= MAX_COLUMNS || LITERAL.test(line)) return false;
  const inTest = /^test\/|\.test\.ts$|\/testing\//.test(file);
  if (!inTest) return true;
  return !LITERAL_OF_TEST.test(line) && (!TITLE.test(line) || columns > MAX_TITLE_COLUMNS);
}

/** One message for each line that is too long, `file:line: …`, in the order of files and lines. */
export function wideLines(repository: string): string[] {
  return globSync(SOURCES, { cwd: repository, exclude: TABLES })
    .sort()
    .flatMap((file) =>
      readFileSync(join(repository, file), 'utf8')
        .split('\n')
        .flatMap((line, index) =>
          isTooWide(file, line) ? [`${file}:${index + 1}: more than ${MAX_COLUMNS} columns`] : [],
        ),
    );
}
