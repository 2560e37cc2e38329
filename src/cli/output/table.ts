/** Tables of commands: a header and rows in columns of equal width, as `kubectl` prints them. */

import { printable } from './printable.ts';

/** Spaces between columns. */
const GAP = '   ';

/** Lines of the rows, of which the first is the header. Characters that control a terminal become `?`. */
export function table(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map((cell) => printable(cell)));
  const widths: number[] = [];
  for (const row of cells) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd();
  return cells.map((row) => `${line(row)}\n`).join('');
}
