/** What commands print: JSON, YAML or tables. */
import { isPrintable, printable, printableJson } from './printable.ts';
import { table } from './table.ts';

export { printable, table };

/** A value in the format of `--output`; `rows` makes the table, with the header first. */
export async function formatted(
  value: unknown,
  format: string,
  rows: () => readonly (readonly string[])[],
): Promise<string> {
  const json = (): string => `${printableJson(JSON.stringify(value, null, 2))}\n`;
  if (format === 'json') return json();
  if (format === 'yaml') {
    const text = (await import('../../core/yaml.ts')).stringify(value);
    // JSON is YAML, and can escape every character.
    return isPrintable(text) ? text : json();
  }
  return table(rows());
}
