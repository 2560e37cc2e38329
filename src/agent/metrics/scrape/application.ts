/**
 * The metrics of the application, line by line. A scraper discards the whole scrape because of one line that it cannot
 * read, so lines that are not valid in its format are left out; so are metrics that the proxy exports under the same
 * names, which a scraper would mix up. Lines are converted if the scrape has another format.
 */
import { convertFamily, type Family, isType, seriesOf } from './families.ts';
import type { Format } from './formats.ts';
import { helpLine, type Metadata, parseMetadata, parseSample, type Sample, sampleLine } from './lines.ts';

/** Families that are remembered, so that each is declared once. */
const MAX_FAMILIES = 50_000;
/** After this many consecutive lines that are not metrics, the rest is not read. */
const MAX_BAD_LINES = 1_000;
/** Maximum number of characters of a line in a message. */
const SHOWN = 60;

export interface ApplicationOptions {
  /** The format of the application's response. */
  readonly from: Format;
  /** The format of the scrape. */
  readonly to: Format;
  /** Whether the proxy exports a series or a family of this name. */
  readonly isTaken: (name: string) => boolean;
}

export class ApplicationMetrics {
  readonly #options: ApplicationOptions;
  /** Names of families of the scrape that the application has declared. */
  readonly #declared = new Set<string>();
  /** The metadata of the last declared family, by keyword; the lines are written before what follows. */
  #metadata = new Map<Metadata['word'], Metadata>();
  #family: Family | undefined;
  #line = 0;
  #badInARow = 0;
  #leftOut = 0;
  #firstReason = '';
  #ended = false;

  constructor(options: ApplicationOptions) {
    this.#options = options;
  }

  /** Whether nothing more is to be read: the end of OpenMetrics, or too much of something else. */
  get ended(): boolean {
    return this.#ended;
  }

  /** How many lines were left out, and the first reason; undefined if none. */
  get problem(): string | undefined {
    return this.#leftOut === 0 ? undefined : `${this.#leftOut} lines are left out, the first is ${this.#firstReason}`;
  }

  /** The lines of the scrape for complete lines of the application. */
  convert(text: string): string {
    let converted = '';
    for (const line of text.split('\n')) {
      if (this.#ended) break;
      this.#line++;
      converted += line.startsWith('#') ? this.#comment(line) : this.#sample(line);
    }
    return converted;
  }

  /** The rest of the output after the application has sent everything. */
  end(): string {
    return this.#head();
  }

  #comment(line: string): string {
    const { from } = this.#options;
    if (line === '# EOF') {
      this.#ended = from === 'openmetrics';
      return '';
    }
    const metadata = parseMetadata(line);
    // Any other comment is allowed in the text format, and is ignored.
    if (metadata === undefined) return from === 'text' ? '' : this.#bad(line);
    if (metadata.word === 'TYPE' && !isType(metadata.text, from)) return this.#bad(line);
    const head = metadata.name === this.#family?.name ? '' : this.#head();
    if (metadata.name !== this.#family?.name) this.#family = { name: metadata.name, type: '' };
    if (metadata.word === 'TYPE') this.#family = { name: metadata.name, type: metadata.text };
    this.#metadata.set(metadata.word, metadata);
    return head;
  }

  #sample(line: string): string {
    if (line === '') return '';
    const { from, to, isTaken } = this.#options;
    const sample = parseSample(line, from);
    if (sample === undefined) return this.#bad(line);
    this.#badInARow = 0;
    const head = this.#head();
    // The text format has no creation times; there they would be separate metrics without a type.
    if (from !== to && to === 'text' && sample.name === `${this.#family?.name}_created`) return head;
    if (isTaken(sample.name)) return head + this.#leaveOut(`${sample.name}, which is a metric of the proxy`);
    return `${head}${sampleLine(from === to ? sample : withTime(sample, from), to)}\n`;
  }

  /** The lines about the last declared family, once. */
  #head(): string {
    const [family, metadata] = [this.#family, this.#metadata];
    if (family === undefined || metadata.size === 0) return '';
    this.#metadata = new Map();
    const { from, to, isTaken } = this.#options;
    const known = { ...family, type: family.type || (from === 'text' ? 'untyped' : 'unknown') };
    const { name, type } = convertFamily(known, from, to);
    const names = [name, ...seriesOf(to === 'text' ? { name, type } : convertFamily({ name, type }, to, 'text'))];
    if (this.#declared.has(name) || names.some(isTaken)) return '';
    if (this.#declared.size === MAX_FAMILIES) {
      this.#ended = true;
      return this.#leaveOut(`after ${MAX_FAMILIES} families`);
    }
    this.#declared.add(name);
    const help = metadata.get('HELP')?.text;
    const unit = metadata.get('UNIT')?.text ?? '';
    return [
      ...(help === undefined ? [] : [`${helpLine(name, help, to)}\n`]),
      ...(metadata.has('TYPE') ? [`# TYPE ${name} ${type}\n`] : []),
      // Prometheus rejects a unit that is not a suffix of the name.
      ...(to === 'openmetrics' && unit !== '' && name.endsWith(`_${unit}`) ? [`# UNIT ${name} ${unit}\n`] : []),
    ].join('');
  }

  #bad(line: string): '' {
    this.#badInARow++;
    if (this.#badInARow === MAX_BAD_LINES) this.#ended = true;
    return this.#leaveOut(`not a metric: ${JSON.stringify(line.slice(0, SHOWN))}`);
  }

  #leaveOut(what: string): '' {
    this.#leftOut++;
    if (this.#leftOut === 1) this.#firstReason = `line ${this.#line}, ${what}`;
    return '';
  }
}

/** A sample with its time in the unit of the other format. */
function withTime(sample: Sample, from: Format): Sample {
  if (sample.time === undefined) return sample;
  const time = from === 'text' ? Number(sample.time) / 1000 : Math.round(Number(sample.time) * 1000);
  return { ...sample, time: time >= 0 && time < 1e15 ? String(time) : undefined };
}
