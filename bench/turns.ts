/**
 * Two programs by turns (`--against`): each bench runs with the one and then with the other, again and again, so that
 * whatever else the machine does meanwhile meets both. The table has medians over the turns and the ratio of the two.
 */
import type { Bench, BenchContext } from './mesh.ts';
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
  const keys = new Set(own.flatMap(({ rows }) => rows.map(keyOf)));
  const rows = [...keys].flatMap((key) => {
    const [before, after] = [base, own].map((outcomes) => rowsOf(outcomes, key));
    return FIGURES.flatMap(([figure, of]) => {
      const [old, now] = [valuesOf(before, of), valuesOf(after, of)];
      if (old.length === 0 || now.length === 0) return [];
      const [was, is] = [median(old), median(now)];
      return [[key, figure, was, is, was === 0 ? undefined : is / was, spreadOf(old), spreadOf(now)]];
    });
  });
  const columns = ['what', 'figure', 'base', 'this', 'ratio', 'base from–to', 'this from–to'];
  return { title: `${name} by ${own.length} turns: medians of base and this checkout`, columns, rows };
}

/** Rows of one key stand at equal places in all turns. */
function keyOf({ what, size }: Row): string {
  return `${what}, ${size.services} x ${size.proxies}`;
}

function rowsOf(outcomes: readonly Outcome[], key: string): readonly Row[] {
  return outcomes.flatMap(({ rows }) => rows.filter((row) => keyOf(row) === key));
}

function valuesOf(rows: readonly Row[] = [], of: (row: Row) => number | undefined): number[] {
  return rows.flatMap((row) => of(row) ?? []);
}

function spreadOf(values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => value.toPrecision(3));
  return `${least}–${most}`;
}
