/** The names of the metrics of Envoy and of the agent in a scrape, which the application's must not have. */
import { convertFamily, type Family, seriesOf } from './families.ts';
import type { Format } from './formats.ts';

/** The families of the agent, with the types of the text format. */
export interface AgentFamilies {
  /** The families that the agent counts. */
  readonly counted: readonly Family[];
  /** Families that are always 0 here, see `unmoved.ts`: those of the application are exported in their place. */
  readonly constant: readonly Family[];
}

/**
 * Metrics of requests that Envoy's own access logger counts. Envoy prefixes the names of its statistics; dashboards
 * read those of Istio's filter, which have no prefix.
 */
const PREFIXED = /^(# TYPE )?envoy_(?=istio_)/gm;
const TYPE_LINE = /^# TYPE ([^\s]+) ([a-z]+)$/gm;

export class ProxyFamilies {
  readonly #taken = new Set<string>();
  /** Series → family. */
  readonly #constant = new Map<string, string>();
  readonly #replaced = new Set<string>();

  constructor({ counted, constant }: AgentFamilies) {
    for (const family of counted) this.#take(family);
    for (const family of constant) for (const name of seriesOf(family)) this.#constant.set(name, family.name);
  }

  /** Families of the agent that the application exports. */
  get replaced(): ReadonlySet<string> {
    return this.#replaced;
  }

  /** Whether the application must not export a series of this name. */
  isTaken(name: string): boolean {
    const family = this.#constant.get(name);
    if (family !== undefined) this.#replaced.add(family);
    return this.#taken.has(name);
  }

  /** Converts complete lines of Envoy, which writes the text format without comments and times, to a format. */
  passOn(lines: string, format: Format): string {
    const text = lines.replace(PREFIXED, (_prefix, comment = '') => comment);
    for (const [, name = '', type = ''] of text.matchAll(TYPE_LINE)) this.#take({ name, type });
    if (format === 'text') return text;
    // OpenMetrics has no empty lines.
    return text.replace(/^\n/gm, '').replace(TYPE_LINE, (_line, name: string, type: string) => {
      const converted = convertFamily({ name, type }, 'text', format);
      return `# TYPE ${converted.name} ${converted.type}`;
    });
  }

  #take(family: Family): void {
    for (const name of seriesOf(family)) this.#taken.add(name);
    this.#taken.add(convertFamily(family, 'text', 'openmetrics').name);
  }
}
