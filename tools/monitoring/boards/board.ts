/**
 * Grafana boards as data, and their JSON
 * (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/). Every panel reads
 * from the Prometheus that the user chooses above the board.
 */

export interface Query {
  /** PromQL. `$__rate_interval` is replaced by Grafana: some scrape intervals. */
  readonly expr: string;
  /** Labels in braces: `{{type}}`. */
  readonly legend: string;
}

/** The units of Grafana that boards use. */
type Unit = 'short' | 's' | 'bytes' | 'Bps' | 'ops' | 'percentunit' | 'd';

export interface Panel {
  readonly title: string;
  /** What it means when the value is high, for people who see it for the first time. */
  readonly meaning: string;
  readonly unit: Unit;
  /** `number`: the current value alone; by default a chart. */
  readonly as?: 'number';
  /** A number is orange from here on. */
  readonly warnFrom?: number;
  readonly queries: readonly Query[];
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

export interface Board {
  /** Part of the address of the board: it must not change. */
  readonly uid: string;
  readonly title: string;
  readonly rows: readonly Row[];
}

/** A chart of some queries. */
export const chart = (title: string, unit: Unit, meaning: string, ...queries: readonly Query[]): Panel => ({
  title,
  unit,
  meaning,
  queries,
});

/** A number. */
export const number = (title: string, unit: Unit, meaning: string, expr: string, warnFrom?: number): Panel => ({
  title,
  unit,
  meaning,
  as: 'number',
  ...(warnFrom !== undefined && { warnFrom }),
  queries: [{ expr, legend: '' }],
});

/** The rate of a counter by a label. */
export const rateBy = (label: string, series: string): Query => ({
  expr: `sum by (${label}) (rate(${series}[$__rate_interval]))`,
  legend: `{{${label}}}`,
});

/** The rate of a counter over all instances. */
export const rate = (series: string, legend: string): Query => ({
  expr: `sum(rate(${series}[$__rate_interval]))`,
  legend,
});

/** A quantile of a histogram over all instances, by no or one label. */
export const quantile = (part: number, histogram: string, label?: string): Query => {
  const by = label === undefined ? 'le' : `le, ${label}`;
  const name = `p${part * 100}`;
  return {
    expr: `histogram_quantile(${part}, sum by (${by}) (rate(${histogram}_bucket[$__rate_interval])))`,
    legend: label === undefined ? name : `{{${label}}} ${name}`,
  };
};

/** The series of control planes alone: other programs export the same names. */
export const ofControlPlanes = (expr: string): string =>
  `${expr} and on (job, instance) mesh_build{component="ctl-discovery"}`;

const COLUMNS = 24;
const CHART = { w: 8, h: 8 };
const NUMBER = { w: 4, h: 4 };
const DATASOURCE = { type: 'prometheus', uid: '$datasource' };

interface Position {
  x: number;
  y: number;
  height: number;
}

/** Places a panel to the right of the one before, or below. */
function place(position: Position, { w, h }: { readonly w: number; readonly h: number }) {
  if (position.x + w > COLUMNS) nextLine(position);
  const gridPos = { h, w, x: position.x, y: position.y };
  position.x += w;
  position.height = Math.max(position.height, h);
  return gridPos;
}

function nextLine(position: Position): void {
  position.x = 0;
  position.y += position.height;
  position.height = 0;
}

function panelJson(panel: Panel, id: number, position: Position): object {
  const { title, meaning, unit, as, warnFrom, queries } = panel;
  const steps = [
    { color: 'green', value: null },
    ...(warnFrom === undefined ? [] : [{ color: 'orange', value: warnFrom }]),
  ];
  return {
    id,
    title,
    description: meaning,
    type: as === 'number' ? 'stat' : 'timeseries',
    datasource: DATASOURCE,
    gridPos: place(position, as === 'number' ? NUMBER : CHART),
    fieldConfig: { defaults: { unit, min: 0, thresholds: { mode: 'absolute', steps } }, overrides: [] },
    options:
      as === 'number'
        ? { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: 'value', graphMode: 'area' }
        : { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: DATASOURCE,
      expr,
      legendFormat: legend,
    })),
  };
}

/** The JSON that Grafana imports, with a line break at its end. */
export function boardJson({ uid, title, rows }: Board): string {
  const position: Position = { x: 0, y: 0, height: 0 };
  let id = 0;
  const panels = rows.flatMap((row) => {
    nextLine(position);
    const gridPos = place(position, { w: COLUMNS, h: 1 });
    const head = { id: ++id, type: 'row', title: row.title, collapsed: false, gridPos, panels: [] };
    return [head, ...row.panels.map((panel) => panelJson(panel, ++id, position))];
  });
  const datasource = { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Prometheus', hide: 0 };
  const board = {
    uid,
    title,
    tags: ['mesh'],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    timezone: 'browser',
    templating: { list: [datasource] },
    annotations: { list: [] },
    links: [{ type: 'dashboards', tags: ['mesh'], title: 'Mesh', asDropdown: true, includeVars: true }],
    panels,
  };
  return `${JSON.stringify(board, null, 2)}\n`;
}
