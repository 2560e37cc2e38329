/**
 * Lines of the text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/) and of OpenMetrics 1.0
 * (https://prometheus.io/docs/specs/om/open_metrics_spec/), parsed so strictly that Prometheus can read every accepted
 * line: it discards a whole scrape because of one line that it cannot read.
 */
import type { Format } from './formats.ts';

/** A value at a time, with the labels of its series or exemplar. */
interface Point {
  /** `{a="b"}` without spaces, or ''. */
  readonly labels: string;
  readonly value: string;
  /** Milliseconds in the text format, seconds in OpenMetrics; undefined if there is none. */
  readonly time: string | undefined;
}

export interface Sample extends Point {
  readonly name: string;
  readonly exemplar: Point | undefined;
}

export type Metadata = { readonly word: 'HELP' | 'TYPE' | 'UNIT'; readonly name: string; readonly text: string };

const NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/y;
const LABEL = /[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t]*(,|(?=\}))/y;
const LABELS_END = /[ \t]*\}/y;
const SPACE = /[ \t]+/y;
const VALUE = /[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)(?=[ \t]|$)/iy;
const TIME: Readonly<Record<Format, RegExp>> = {
  // Prometheus does not accept a sign here.
  text: /\d{1,16}(?=[ \t]|$)/y,
  openmetrics: /-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=[ \t]|$)/y,
};
const EXEMPLAR = /# *(?=\{)/y;
/** Characters of the labels of an exemplar, names and values (OpenMetrics, "Exemplars"). */
const LONGEST_EXEMPLAR = 128;

const METADATA = /^#[ \t]+(HELP|TYPE|UNIT)[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*)(?:[ \t]+(.*))?$/;

/** Reads a line from left to right. */
class Reader {
  readonly #line: string;
  #at = 0;

  constructor(line: string) {
    this.#line = line;
  }

  get atEnd(): boolean {
    return this.#at === this.#line.length;
  }

  get atLabels(): boolean {
    return this.#line[this.#at] === '{';
  }

  /** Matches a pattern at the current position and moves past it. */
  take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#line);
    if (found === null) return undefined;
    this.#at = pattern.lastIndex;
    return found;
  }

  /** Undefined when they do not parse, or when a name occurs twice: Prometheus refuses the scrape for that. */
  labels(): string | undefined {
    this.#at++;
    const names = new Set<string>();
    const pairs: string[] = [];
    for (let label = this.take(LABEL); label !== undefined; label = this.take(LABEL)) {
      const [, name = '', value = ''] = label;
      if (name === '__name__' || names.has(name)) return undefined;
      names.add(name);
      pairs.push(`${name}=${withKnownEscapes(value, 'openmetrics')}`);
    }
    return this.take(LABELS_END) === undefined ? undefined : `{${pairs.join(',')}}`;
  }

  /** A value, and a time if there is one. */
  point(labels: string, format: Format): Point | undefined {
    const value = this.take(VALUE)?.[0];
    if (value === undefined) return undefined;
    this.take(SPACE);
    const time = this.take(TIME[format])?.[0];
    this.take(SPACE);
    const isNumber = /\d/.test(value);
    if ((isNumber && isTooLarge(value)) || isTooLarge(time ?? '0')) return undefined;
    return { labels, value: isNumber ? value : special(value), time };
  }
}

/**
 * A string with only the escapes of a format. Prometheus takes a backslash before any other character literally; other
 * readers refuse the scrape. Labels have the escapes of OpenMetrics in both formats; help strings of the text format
 * have no `\"`.
 */
function withKnownEscapes(text: string, format: Format): string {
  return text.replace(/\\(.?)/g, (sequence, escaped: string) => {
    if (escaped === 'n' || escaped === '\\') return sequence;
    if (escaped === '"') return format === 'openmetrics' ? sequence : escaped;
    return `\\\\${escaped}`;
  });
}

/** The HELP line in a format. */
export function helpLine(name: string, text: string, format: Format): string {
  return `# HELP ${name} ${withKnownEscapes(text, format)}`;
}

/** Whether a number exceeds the range of 64-bit floating point. */
function isTooLarge(number: string): boolean {
  return !Number.isFinite(Number(number));
}

/** Both formats have a single notation for these. */
function special(value: string): string {
  if (/nan/i.test(value)) return 'NaN';
  return value.startsWith('-') ? '-Inf' : '+Inf';
}

/** Undefined for a line that is not a sample. */
export function parseSample(line: string, format: Format): Sample | undefined {
  const reader = new Reader(line);
  const name = reader.take(NAME)?.[0];
  if (name === undefined || line.includes('\0')) return undefined;
  const spaced = reader.take(SPACE) !== undefined;
  const labelled = reader.atLabels;
  const labels = labelled ? reader.labels() : '';
  if (labels === undefined || (reader.take(SPACE) === undefined && !spaced && !labelled)) return undefined;
  const point = reader.point(labels === '{}' ? '' : labels, format);
  if (point === undefined) return undefined;
  if (reader.atEnd) return { name, ...point, exemplar: undefined };
  const exemplar = format === 'text' ? undefined : readExemplar(reader);
  return exemplar === undefined ? undefined : { name, ...point, exemplar };
}

function readExemplar(reader: Reader): Point | undefined {
  if (reader.take(EXEMPLAR) === undefined) return undefined;
  const labels = reader.labels();
  reader.take(SPACE);
  const point = labels === undefined ? undefined : reader.point(labels, 'openmetrics');
  return reader.atEnd ? point : undefined;
}

/** A line about a metric; undefined for any other line. */
export function parseMetadata(line: string): Metadata | undefined {
  const [, word, name = '', text = ''] = METADATA.exec(line) ?? [];
  return word === undefined || line.includes('\0') ? undefined : { word: word as Metadata['word'], name, text };
}

/** The line of a sample in a format; an exemplar is left out where the format or its rules do not allow it. */
export function sampleLine({ name, labels, value, time, exemplar }: Sample, format: Format): string {
  const line = `${name}${labels} ${value}${time === undefined ? '' : ` ${time}`}`;
  if (exemplar === undefined || format === 'text' || !mayHaveExemplar(name, exemplar)) return line;
  return `${line} # ${exemplar.labels} ${exemplar.value}${exemplar.time === undefined ? '' : ` ${exemplar.time}`}`;
}

function mayHaveExemplar(name: string, { labels }: Point): boolean {
  return /_(?:total|bucket)$/.test(name) && labels.replace(/["=,{}]/g, '').length <= LONGEST_EXEMPLAR;
}
