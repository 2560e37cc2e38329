/** Whether a name was probably meant as another one: a typing error, another case, or additional `-` and `_`. */

/** Longer names may differ by two letters. */
const SHORT = 4;

export function resembles(written: string, meant: string): boolean {
  if (written === meant || Math.abs(written.length - meant.length) > 3) return false;
  const [a, b] = [plain(written), plain(meant)];
  return distance(a, b) <= (meant.length <= SHORT ? 1 : 2);
}

function plain(name: string): string {
  return name.replace(/[-_\s]/g, '').toLowerCase();
}

/** Letters to insert, delete, replace or swap with their neighbour (optimal string alignment). */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= a.length; row++) {
    const next = [row];
    rows.push(next);
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let least = Math.min(
        at(row - 1, column) + 1,
        (next[column - 1] ?? 0) + 1,
        at(row - 1, column - 1) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        least = Math.min(least, at(row - 2, column - 2) + 1);
      }
      next.push(least);
    }
  }
  return at(a.length, b.length);
}
