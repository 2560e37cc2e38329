/** A line chart of the last minutes. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

export interface Line {
  readonly name: string;
  /** Name of a custom property of the style sheet. */
  readonly color: string;
  readonly values: readonly (number | null)[];
}

export interface ChartProps {
  readonly title: string;
  /** Unix seconds. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly shown: (value: number) => string;
}

const HEIGHT = 130;
const WINDOW_S = 30 * 60;
const DARK = matchMedia('(prefers-color-scheme: dark)');

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function optionsOf({ lines, shown }: ChartProps, width: number): uPlot.Options {
  const axis = { stroke: color('--dim'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } };
  const font = '11px system-ui, sans-serif';
  return {
    width,
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { range: (_, __, max) => [max - WINDOW_S, max] },
      y: { range: (_, __, max) => [0, Math.max(max ?? 0, 1e-9) * 1.1] },
    },
    axes: [
      { ...axis, font, size: 24, space: 70, values: '{HH}:{mm}' },
      { ...axis, font, size: 58, space: 30, values: (_, splits) => splits.map(shown) },
    ],
    series: [
      {},
      ...lines.map(({ name, color: stroke }) => ({
        label: name,
        stroke: color(stroke),
        width: 1.5,
        spanGaps: false,
        // A value without neighbours is a dot: a line has no length there.
        points: {
          show: true,
          size: 4,
          fill: color(stroke),
          filter: (_: uPlot, series: number) => isolated(lines[series - 1]),
        },
      })),
    ],
  };
}

function isolated(line: Line | undefined): number[] {
  const values = line?.values ?? [];
  const isGap = (index: number): boolean => (values[index] ?? null) === null;
  return [...values.keys()].filter((index) => !isGap(index) && isGap(index - 1) && isGap(index + 1));
}

function dataOf({ times, lines }: ChartProps): uPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => [...values])];
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const current = useRef(props);
  current.current = props;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const make = (): void => {
      chart.current?.destroy();
      chart.current = new uPlot(optionsOf(current.current, element.clientWidth), dataOf(current.current), element);
    };
    make();
    const resized = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    DARK.addEventListener('change', make);
    return () => {
      resized.disconnect();
      DARK.removeEventListener('change', make);
      chart.current?.destroy();
    };
  }, []);
  useEffect(() => chart.current?.setData(dataOf(props)));
  return (
    <figure class="chart">
      <figcaption>
        <strong>{props.title}</strong>
        {props.lines.map(({ name, color: stroke, values }) => (
          <span key={name} class="legend">
            <span class="swatch" style={{ background: `var(${stroke})` }} />
            {name} {shownLast(values, props.shown)}
          </span>
        ))}
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${props.title} of the last 30 minutes`} />
    </figure>
  );
}

/** The last value: that of the interval that has ended last. */
function shownLast(values: readonly (number | null)[], shown: (value: number) => string): string {
  const last = values.findLast((value) => value !== null);
  return last === undefined || last === null ? '–' : shown(last);
}
