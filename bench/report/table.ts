/** Results as text: for the terminal and for Markdown. */
import { percent } from '../disturbance.ts';
import { modeText } from '../options.ts';
import type { Outcome, Row, Table } from '../results.ts';
import type { RoundsTally } from '../rounds.ts';

const MB = 1e6;

/** One column of the main table. */
interface Column {
  readonly name: string;
  readonly of: (row: Row) => string | number | undefined;
  /** A value that is the same in all rows moves to the title, to save width. */
  readonly inTitle?: (value: string) => string;
}

const COLUMNS: readonly Column[] = [
  { name: 'bench', of: ({ bench }) => bench },
  { name: 'what', of: ({ what }) => what },
  { name: 'mode', of: ({ size }) => modeText(size), inTitle: (value) => value },
  {
    name: 'services',
    of: ({ size }) => `${size.services} x ${size.endpoints}`,
    inTitle: (value) => `${value} services`,
  },
  {
    name: 'proxies',
    of: ({ size }) => `${size.proxies} in ${size.namespaces}`,
    inTitle: (value) => `proxies ${value}`,
  },
  { name: 'rounds', of: ({ rounds }) => rounds && roundsText(rounds) },
  { name: 'stolen', of: ({ rounds }) => percentText(rounds?.stolen) },
  { name: 'others', of: ({ rounds }) => percentText(rounds?.others) },
  { name: 'p50 ms', of: ({ latency }) => latency?.p50 },
  { name: 'p90 ms', of: ({ latency }) => latency?.p90 },
  { name: 'p99 ms', of: ({ latency }) => latency?.p99 },
  { name: 'p99 med', of: ({ medianRound }) => medianRound?.p99 },
  { name: 'max ms', of: ({ latency }) => latency?.max },
  { name: 'spread', of: ({ spreadMs }) => spreadMs },
  { name: 'CPU s', of: ({ serverCpu }) => serverCpu },
  { name: 'client s', of: ({ clientCpu }) => clientCpu },
  { name: 'MB', of: ({ bytes }) => (bytes === undefined ? undefined : bytes / MB) },
  { name: 'messages', of: ({ messages }) => messages },
  { name: 'resources', of: ({ resources }) => resources },
  { name: 'RSS MiB', of: ({ rssMiB }) => rssMiB },
  { name: 'peak', of: ({ peakMiB }) => peakMiB },
  { name: '/ready', of: ({ readyMs }) => readyMs },
  { name: 'note', of: ({ note }) => note },
];

/** The meanings of the columns of the main table. */
export const LEGEND: readonly string[] = [
  'Latency (ms): from the edit on disk (one `rename`) to the last byte of it at each proxy. p50, p90, p99 and max: ' +
    'over all proxies and counted rounds, so that one bad round decides p99. p99 med: the median over the rounds of ' +
    'the p99 of each round.',
  'rounds: how many rounds count, of how many; the others were discarded because the machine was disturbed. (n!): n ' +
    'of those that count were disturbed. In the worst round that counts, stolen: the share of the CPU time wanted on ' +
    'this machine that the hypervisor withheld; others: the share of all cores that processes outside of the bench ' +
    'used.',
  'spread: from the first to the last proxy, ms. CPU s: of ctl-discovery; client s: of the simulated proxies; both ' +
    'in the median round. MB (gRPC messages as received), messages, resources: per round, all proxies together. RSS ' +
    'and peak: of ctl-discovery, MiB.',
];

function roundsText({ counted, thrownAway, disturbed }: RoundsTally): string {
  return `${counted}${thrownAway > 0 ? ` of ${counted + thrownAway}` : ''}${disturbed > 0 ? ` (${disturbed}!)` : ''}`;
}

function percentText(part: number | undefined): string | undefined {
  return part === undefined ? undefined : percent(part);
}

/** A number with enough digits to compare. */
export function shown(value: string | number | undefined): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value;
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3);
}

/** One table of all rows, then the tables of single benches. */
export function tablesOf(outcomes: readonly Outcome[]): Table[] {
  const rows = outcomes.flatMap((outcome) => outcome.rows);
  const main: Table[] = rows.length === 0 ? [] : [mainTable(rows)];
  return [...main, ...outcomes.flatMap(({ tables = [] }) => tables)];
}

function mainTable(rows: readonly Row[]): Table {
  const same = ({ of, inTitle }: Column): string | undefined => {
    const [value, ...others] = new Set(rows.map(of));
    return inTitle === undefined || value === undefined || others.length > 0 ? undefined : inTitle(shown(value));
  };
  const isEmpty = ({ of }: Column): boolean => rows.every((row) => of(row) === undefined);
  const columns = COLUMNS.filter((column) => same(column) === undefined && !isEmpty(column));
  return {
    title: ['Results', ...COLUMNS.flatMap((column) => same(column) ?? [])].join(', '),
    columns: columns.map(({ name }) => name),
    rows: rows.map((row) => columns.map(({ of }) => of(row))),
  };
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
