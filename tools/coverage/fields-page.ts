/** The table of fields for operators: which have an effect, and which are reported. */
import { readCoverage, shownAs } from './problems.ts';

const code = (text: string): string => `\`${text}\``;

/** Sections of the page, one for each kind and configuration file. */
export function fieldSections(
  table: (header: readonly string[], rows: readonly (readonly string[])[]) => string,
): string[] {
  const coverage = readCoverage();
  const reasons = new Map(coverage.elsewhere.flatMap((each) => each.fields.map((field) => [field, each] as const)));
  const roots = [...new Set(coverage.fields.map(rootOf))];
  const rowOf = (field: string): readonly string[] => {
    const shown = shownAs(coverage, field);
    const name = code(field.slice(rootOf(field).length + 1));
    if (shown !== undefined) return [name, shown.showing, shown.since, code(shown.by)];
    const { reason = '', tests } = reasons.get(field) ?? {};
    return [name, tests === undefined ? 'see the last column' : 'effect', '', reason];
  };
  return roots.flatMap((root) => [
    `## ${root}`,
    table(
      ['Field', 'What it does', 'Since', 'Shown by'],
      coverage.fields.filter((field) => rootOf(field) === root).map(rowOf),
    ),
  ]);
}

function rootOf(field: string): string {
  return field.slice(0, field.indexOf('.'));
}
