/** What commands print: JSON, YAML or tables. */
import { table } from './table.ts';

export { table };

/** A value in the format of `--output`; `rows` makes the table, with the header first. */
export async function formatted(
  value: unknown,
  format: string,
  rows: () => readonly (readonly string[])[],
): Promise<string> {
  if (format === 'json') return `${JSON.stringify(value, null, 2)}\n`;
  if (format === 'yaml') return (await import('../../core/yaml.ts')).stringify(value);
  return table(rows());
}
