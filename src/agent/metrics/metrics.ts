/**
 * The agent's counters and gauges, in Prometheus text format. A client library would need a fifth of the agent's
 * memory, for a dozen numbers. Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text-based,
 * 0.0.4).
 */
import type { IdentityMetric } from '../types.ts';
import { convertFamily, type Family } from './scrape/families.ts';
import type { Format } from './scrape/formats.ts';
import type { AgentFamilies } from './scrape/proxy-families.ts';
import { AGENT_METRICS, type AgentMetricName, isAgentMetric } from './table.ts';
import { UNMOVED_FAMILIES, unmovedText } from './unmoved.ts';

type Labels = Readonly<Record<string, string>>;

export interface AgentMetrics {
  add(name: AgentMetricName, by?: number, labels?: Labels): void;
  set(name: AgentMetricName, value: number, labels?: Labels): void;
  /** Adds a source of values, which is read for each scrape; values without a row in the table are left out. */
  include(source: () => readonly IdentityMetric[]): void;
  /** All families that `text` may have. */
  readonly families: AgentFamilies;
  /**
   * All metrics, including those that the agent never changes; a metric without labels that was never counted is 0.
   * @param without families of constant metrics that are left out
   */
  text(format?: Format, without?: ReadonlySet<string>): string;
}

const NO_LABELS = '';

export function createAgentMetrics(): AgentMetrics {
  const samples = new Map<AgentMetricName, Map<string, number>>();
  const of = (name: AgentMetricName): Map<string, number> => {
    const known = samples.get(name);
    if (known !== undefined) return known;
    const made = new Map<string, number>();
    samples.set(name, made);
    return made;
  };
  const sources: (() => readonly IdentityMetric[])[] = [];
  const ask = (): void => {
    for (const { name, value, labels = {} } of sources.flatMap((source) => source()))
      if (isAgentMetric(name)) of(name).set(labelText(labels), value);
  };
  return {
    include: (source) => void sources.push(source),
    add(name, by = 1, labels = {}) {
      const key = labelText(labels);
      of(name).set(key, (of(name).get(key) ?? 0) + by);
    },
    set: (name, value, labels = {}) => void of(name).set(labelText(labels), value),
    families: { counted: names().map(familyOf), constant: UNMOVED_FAMILIES },
    text(format = 'text', without = new Set()) {
      ask();
      return names()
        .map((name) => textOf(name, of(name), format))
        .join('')
        .concat(unmovedText(format, without));
    },
  };
}

function names(): readonly AgentMetricName[] {
  return Object.keys(AGENT_METRICS) as AgentMetricName[];
}

function familyOf(name: AgentMetricName): Family {
  return { name, type: AGENT_METRICS[name].type === 'Sum' ? 'counter' : 'gauge' };
}

function textOf(name: AgentMetricName, samples: ReadonlyMap<string, number>, format: Format): string {
  const spec = AGENT_METRICS[name];
  const rows = samples.size === 0 && !('labels' in spec) ? [[NO_LABELS, 0] as const] : [...samples];
  const family = convertFamily(familyOf(name), 'text', format);
  const head = `# HELP ${family.name} ${spec.meaning}\n# TYPE ${family.name} ${family.type}\n`;
  return head + rows.map(([labels, value]) => `${name}${labels} ${value}\n`).join('');
}

function labelText(labels: Labels): string {
  const parts = Object.entries(labels).map(
    ([key, value]) => `${key}="${value.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))}"`,
  );
  return parts.length === 0 ? NO_LABELS : `{${parts.join(',')}}`;
}
