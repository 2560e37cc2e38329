/**
 * Families of metrics: which samples belong to one, and its metadata in the other format. In OpenMetrics, the name of a
 * counter family has no `_total`, but its sample does.
 */
import type { Format } from './formats.ts';

const TEXT_TYPES: ReadonlySet<string> = new Set(['counter', 'gauge', 'histogram', 'summary', 'untyped']);
const OPEN_METRICS_TYPES: ReadonlySet<string> = new Set([
  'counter',
  'gauge',
  'histogram',
  'gaugehistogram',
  'stateset',
  'info',
  'summary',
  'unknown',
]);

/** Suffixes of sample names in addition to the name of the family itself, by its type. */
const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  histogram: ['_bucket', '_sum', '_count'],
  gaugehistogram: ['_bucket', '_gsum', '_gcount'],
  summary: ['_sum', '_count'],
};

export interface Family {
  readonly name: string;
  readonly type: string;
}

export function isType(type: string, format: Format): boolean {
  return (format === 'text' ? TEXT_TYPES : OPEN_METRICS_TYPES).has(type);
}

/** Names of series that a family of the text format has. */
export function seriesOf({ name, type }: Family): readonly string[] {
  return [name, ...(ENDINGS[type] ?? []).map((ending) => `${name}${ending}`)];
}

/** The same family in another format. */
export function convertFamily(family: Family, from: Format, to: Format): Family {
  if (from === to) return family;
  return to === 'openmetrics' ? toOpenMetrics(family) : toText(family);
}

/** The names of series stay as they are: a counter without `_total` has no type of OpenMetrics. */
function toOpenMetrics({ name, type }: Family): Family {
  if (type === 'counter')
    return name.endsWith('_total') ? { name: name.slice(0, -'_total'.length), type } : { name, type: 'unknown' };
  return { name, type: type === 'untyped' ? 'unknown' : type };
}

function toText({ name, type }: Family): Family {
  switch (type) {
    case 'counter':
      return { name: `${name}_total`, type };
    case 'info':
      return { name: `${name}_info`, type: 'gauge' };
    case 'stateset':
      return { name, type: 'gauge' };
    case 'gauge':
    case 'histogram':
    case 'summary':
      return { name, type };
    default:
      return { name, type: 'untyped' };
  }
}
