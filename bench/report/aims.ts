/**
 * The project's aims, beside the figures of a run. The aims are for one size of mesh in plain text, measured from
 * outside: 1,000 services of 5 endpoints, 1,000 proxies in 10 namespaces, every service visible to every proxy, proxies
 * on the same two cores.
 */
import { type Mode, modeText, type Size } from '../options.ts';
import type { Row, Table } from '../results.ts';

const SIZE = { services: 1000, endpoints: 5, proxies: 1000, namespaces: 10 } as const satisfies Partial<Size>;

/** Over TLS with client certificates every figure may be this many times the plain one. */
const MTLS_FACTOR = 1.6;

/** One number of a row. `key` is also its name in the report. */
const FIGURES = {
  'max s': ({ latency }: Row) => seconds(latency?.max),
  'p99 s': ({ latency }: Row) => seconds(latency?.p99),
  'CPU s': ({ serverCpu }: Row) => serverCpu,
  'MiB now': ({ rssMiB }: Row) => rssMiB,
  'MiB at peak': ({ peakMiB }: Row) => peakMiB,
  'resources sent': ({ resources }: Row) => resources,
  'bytes sent': ({ bytes }: Row) => bytes,
} as const satisfies Readonly<Record<string, (row: Row) => number | undefined>>;
type Figure = keyof typeof FIGURES;

/** The same figures in the median round, for figures that one bad round can spoil. */
const IN_MEDIAN_ROUND: Partial<Record<Figure, (row: Row) => number | undefined>> = {
  'max s': ({ medianRound }) => seconds(medianRound?.max),
  'p99 s': ({ medianRound }) => seconds(medianRound?.p99),
};

interface Aim {
  readonly aim: string;
  /** The row that shows it. */
  readonly row: Pick<Row, 'bench' | 'what'>;
  /** Both when left out. */
  readonly mode?: Mode;
  readonly atMost: Partial<Record<Figure, number>>;
}

/** The debounce is 100 ms, and a GiB has 1,024 MiB. */
const AIMS: readonly Aim[] = [
  {
    aim: 'cold start, all in sync',
    row: { bench: 'cold', what: 'start to in sync' },
    atMost: { 'max s': 6, 'CPU s': 6 },
  },
  { aim: 'memory', row: { bench: 'cold', what: 'start to in sync' }, atMost: { 'MiB now': 307, 'MiB at peak': 614 } },
  { aim: 'one route changed', row: { bench: 'convergence', what: 'route' }, atMost: { 'p99 s': 1, 'CPU s': 0.9 } },
  {
    aim: 'one service added',
    row: { bench: 'convergence', what: 'service added' },
    mode: 'delta',
    atMost: { 'p99 s': 1.2, 'CPU s': 1 },
  },
  {
    aim: 'one service added',
    row: { bench: 'convergence', what: 'service added' },
    mode: 'sotw',
    atMost: { 'p99 s': 4.5, 'CPU s': 2.5 },
  },
  {
    aim: 'one endpoint changed',
    row: { bench: 'convergence', what: 'endpoint' },
    atMost: { 'p99 s': 0.16, 'CPU s': 0.1 },
  },
  {
    aim: 'reconnect of all, nothing changed',
    row: { bench: 'reconnect', what: 'all drop, come back' },
    mode: 'delta',
    atMost: { 'resources sent': 0, 'max s': 3 },
  },
  {
    aim: 'a change that nobody sees',
    row: { bench: 'convergence', what: 'nothing visible' },
    atMost: { 'bytes sent': 0, 'CPU s': 0.02 },
  },
];

function seconds(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : milliseconds / 1000;
}

type Cells = (string | number | undefined)[];

/** A line for each measured figure of an aim; undefined when none was measured, or the mesh had another size. */
export function asideAims(rows: readonly Row[]): Table | undefined {
  const sized = rows.filter(({ size }) => isAimed(size));
  const lines = sized.flatMap((row) =>
    AIMS.filter((aim) => aim.row.bench === row.bench && aim.row.what === row.what).flatMap((aim) =>
      aim.mode === undefined || aim.mode === row.size.mode ? linesOf(aim, row, sized) : [],
    ),
  );
  if (lines.length === 0) return undefined;
  const columns = ['what', 'mode', 'figure', 'aim, at most', 'measured', 'median round', 'verdict'];
  return { title: 'Beside the aims', columns, rows: lines };
}

function isAimed(size: Size): boolean {
  return (Object.keys(SIZE) as (keyof typeof SIZE)[]).every((key) => size[key] === SIZE[key]);
}

function linesOf(aim: Aim, row: Row, rows: readonly Row[]): Cells[] {
  const figures = Object.entries(aim.atMost) as [Figure, number][];
  if (row.size.security === 'plain') return figures.flatMap(([figure, most]) => lineOf(aim, figure, row, most));
  const plain = rows.find(
    ({ bench, what, size }) =>
      bench === row.bench && what === row.what && size.mode === row.size.mode && size.security === 'plain',
  );
  // "Nothing is sent" is an aim over TLS, too; all others are ratios to the plain figures of the same run.
  return figures.flatMap(([figure, most]) => {
    if (most === 0) return lineOf(aim, figure, row, 0);
    return plain === undefined ? [] : lineOf(aim, figure, row, MTLS_FACTOR, plain);
  });
}

/**
 * With `plain`, the ratio to that row's figure is shown and judged. None when the figure was not measured.
 */
function lineOf({ aim }: Aim, figure: Figure, row: Row, most: number, plain?: Row): Cells[] {
  const measured = (pick: ((row: Row) => number | undefined) | undefined): number | undefined => {
    const [value, base] = [pick?.(row), plain === undefined ? 1 : pick?.(plain)];
    return value === undefined || base === undefined ? undefined : value / base;
  };
  const [value, middle] = [measured(FIGURES[figure]), measured(IN_MEDIAN_ROUND[figure])];
  if (value === undefined) return [];
  const text = (part: number | undefined): Cells[number] =>
    part === undefined || plain === undefined ? part : `${part.toFixed(2)} x plain`;
  return [
    [aim, modeText(row.size), figure, text(most), text(value), text(middle), verdict(value, middle, most, row, plain)],
  ];
}

/**
 * An aim that is reached on a disturbed machine is reached. A ratio is not: the disturbed part may be its base.
 */
function verdict(value: number, middle: number | undefined, most: number, row: Row, plain?: Row): string {
  const reached = value <= most;
  const disturbed = [row, plain].some((each) => (each?.rounds?.disturbed ?? 0) > 0);
  const remarks = [
    ...(!reached && middle !== undefined && middle <= most ? ['reached in the median round'] : []),
    ...(disturbed && (!reached || plain !== undefined) ? ['disturbed'] : []),
  ];
  return `${reached ? 'reached' : 'not reached'}${remarks.length === 0 ? '' : ` (${remarks.join('; ')})`}`;
}
