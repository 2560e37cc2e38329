/**
 * Two programs by turns (`--against`): each bench runs with the one and then with the other, again and again, so that
 * whatever else the machine does meanwhile meets both. The table has medians over the turns and the ratio of the two.
 */
import type { Bench, BenchContext } from './mesh.ts';
import { shown } from './report/table.ts';
import { median, type Outcome, type Row, type Table } from './results.ts';

/** The figures that are compared, as far as the rows of a bench have them. */
const FIGURES: readonly (readonly [name: string, of: (row: Row) => number | undefined])[] = [
  ['p50 ms', ({ latency }) => latency?.p50],
  ['p99 ms', ({ latency }) => latency?.p99],
  ['max ms', ({ latency }) => latency?.max],
  ['CPU s', ({ serverCpu }) => serverCpu],
  ['MB', ({ bytes }) => (bytes === undefined ? undefined : bytes / 1e6)],
  ['RSS MiB', ({ rssMiB }) => rssMiB],
  ['peak MiB', ({ peakMiB }) => peakMiB],
  ['/ready ms', ({ readyMs }) => readyMs],
];

export interface Turns {
  /** The program of the other checkout. */
  readonly program: string;
  readonly count: number;
}

/** Runs the bench with both programs; the rows are those of this checkout's. */
export async function runByTurns(bench: Bench, context: BenchContext, { program, count }: Turns): Promise<Outcome> {
  const [base, own]: [Outcome[], Outcome[]] = [[], []];
  for (let turn = 1; turn <= count; turn++) {
    const run = async (name: string, with_: string, into: Outcome[]): Promise<void> => {
      const progress = (text: string): void => context.progress(`turn ${turn} of ${count}, ${name}: ${text}`);
      into.push(await bench.run({ ...context, program: with_, progress }));
    };
    const steps = [() => run('base', program, base), () => run('this', context.program, own)];
    // Neither is always the first of a turn.
    for (const step of turn % 2 === 0 ? steps.reverse() : steps) await step();
  }
  return {
    rows: own.flatMap(({ rows }) => rows),
    tables: [turnsTable(bench, base, own), ...(own.at(-1)?.tables ?? [])],
    failures: [...base.flatMap(named('base')), ...own.flatMap(named('this'))],
  };
}

function named(program: string): (outcome: Outcome) => string[] {
  return ({ failures = [] }) => failures.map((failure) => `${program}: ${failure}`);
}

function turnsTable({ name }: Bench, base: readonly Outcome[], own: readonly Outcome[]): Table {
  const before = figuresOf(base);
  const rows = [...figuresOf(own)].flatMap(([key, now]) => {
    const old = before.get(key);
    if (old === undefined) return [];
    const [was, is] = [median(old.values), median(now.values)];
    const ratio = was === 0 ? undefined : is / was;
    return [[now.what, now.figure, was, is, ratio, spreadOf(old.values), spreadOf(now.values)]];
  });
  const columns = ['what', 'figure', 'base', 'this', 'ratio', 'base from–to', 'this from–to'];
  return { title: `${name} by ${own.length} turns: medians of base and this checkout`, columns, rows };
}

interface Values {
  readonly what: string;
  readonly figure: string;
  readonly values: number[];
}

/** The values of each figure in all turns: those of rows, and the numbers in tables. */
function figuresOf(outcomes: readonly Outcome[]): ReadonlyMap<string, Values> {
  const all = new Map<string, Values>();
  const add = (what: string, figure: string, value: number | undefined): void => {
    if (value === undefined) return;
    const key = JSON.stringify([what, figure]);
    const known = all.get(key);
    if (known === undefined) all.set(key, { what, figure, values: [value] });
    else known.values.push(value);
  };
  for (const { rows, tables = [] } of outcomes) {
    for (const row of rows) {
      const { services, proxies } = row.size;
      for (const [figure, of] of FIGURES) add(`${row.what}, ${services} x ${proxies}`, figure, of(row));
    }
    for (const { columns, rows: lines } of tables)
      for (const line of lines) {
        const what = line.filter((cell) => typeof cell === 'string').join(', ');
        line.forEach((cell, column) => {
          if (typeof cell === 'number') add(what, columns[column] ?? '', cell);
        });
      }
  }
  return all;
}

function spreadOf(values: readonly number[]): string {
  return `${shown(Math.min(...values))}–${shown(Math.max(...values))}`;
}
