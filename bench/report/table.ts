/** Results as text: for the terminal and for Markdown. */
import { modeText } from '../options.ts';
import type { Outcome, Row, Table } from '../results.ts';

const MB = 1e6;

const COLUMNS = [
  'bench',
  'what',
  'mode',
  'services',
  'proxies',
  'p50 ms',
  'p90 ms',
  'p99 ms',
  'max ms',
  'spread ms',
  'CPU s',
  'client CPU s',
  'MB',
  'messages',
  'resources',
  'RSS MiB',
  'peak MiB',
  'note',
];

/** Enough digits to compare with. */
export function shown(value: string | number | undefined): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value;
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3);
}

function cells(row: Row): (string | number | undefined)[] {
  const { size, latency } = row;
  return [
    row.bench,
    row.what,
    modeText(size),
    `${size.services} x ${size.endpoints}`,
    `${size.proxies} in ${size.namespaces}`,
    latency?.p50,
    latency?.p90,
    latency?.p99,
    latency?.max,
    row.spreadMs,
    row.serverCpu,
    row.clientCpu,
    row.bytes === undefined ? undefined : row.bytes / MB,
    row.messages,
    row.resources,
    row.rssMiB,
    row.peakMiB,
    row.note,
  ];
}

/** One table of all rows, then the tables of single benches. */
export function tablesOf(outcomes: readonly Outcome[]): Table[] {
  const rows = outcomes.flatMap((outcome) => outcome.rows);
  const main: Table[] = rows.length === 0 ? [] : [{ title: 'Results', columns: COLUMNS, rows: rows.map(cells) }];
  return [...main, ...outcomes.flatMap(({ tables = [] }) => tables)];
}

export function asText({ title, columns, rows }: Table): string {
  const lines = [columns, ...rows.map((row) => row.map(shown))];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  const text = lines.map((line) =>
    line
      .map((cell, index) => cell.padEnd(widths[index] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return `${title}\n${text.join('\n')}\n`;
}

export function asMarkdown({ title, columns, rows }: Table): string {
  const line = (values: readonly string[]): string =>
    `| ${values.map((value) => value.replaceAll('|', '\\|')).join(' | ')} |`;
  const body = rows.map((row) => line(row.map(shown)));
  return [`## ${title}`, '', line(columns), line(columns.map(() => '---')), ...body, ''].join('\n');
}
