/**
 * The requested metrics of requests and connections: from Telemetry documents, from the widest scope to the narrowest,
 * or from the mesh configuration. Each override is applied to the result of the previous ones.
 */
import {
  type MeshConfig,
  type MetricsEntry,
  TRAFFIC_METRICS,
  type TrafficMetric,
} from '../../../../resources/index.ts';
import { concerns, type Direction } from '../documents.ts';
import { STANDARD_LABELS } from './labels.ts';

/**
 * Maximum number of tags that all documents together may add or replace: Envoy evaluates each tag of each metric for
 * each request.
 */
export const MAX_ADDED_TAGS = 16;

export interface MetricChanges {
  readonly disabled: boolean;
  /** Name → expression of CEL; null: without this standard label. Sorted. */
  readonly tags: readonly (readonly [name: string, expression: string | null])[];
}

/** The names of the providers: those of the last entry with providers, or those of the mesh configuration. */
export function metricProviders({ defaultProviders }: MeshConfig, entries: readonly MetricsEntry[]): readonly string[] {
  const last = entries.findLast(({ providers = [] }) => providers.length > 0);
  return last?.providers?.map(({ name }) => name) ?? defaultProviders.metrics ?? [];
}

/** A standard metric, or the name of a metric that only the configuration of `istio.stats` defines. */
export type Metric = TrafficMetric | (string & {});

/** The changes of each metric of a provider; metrics without changes are absent. */
export function changesFor(
  mesh: MeshConfig,
  entries: readonly MetricsEntry[],
  provider: string,
  direction: Direction,
): ReadonlyMap<Metric, MetricChanges> {
  const disabled = new Map<Metric, boolean>();
  const tags = new Map<Metric, Map<string, string | null>>();
  for (const override of overridesOf(mesh, entries, provider).filter((each) => concerns(direction, each))) {
    for (const metric of metricsOf(override)) {
      if (override.disabled !== undefined) disabled.set(metric, override.disabled);
      const known = tags.get(metric) ?? new Map<string, string | null>();
      for (const [name, { operation, value = '' }] of Object.entries(override.tagOverrides ?? {})) {
        if (operation !== 'REMOVE') known.set(name, value);
        else if (STANDARD_LABELS.has(name) || !isStandard(metric)) known.set(name, null);
        else known.delete(name);
      }
      tags.set(metric, known);
    }
  }
  const changes = new Map<Metric, MetricChanges>();
  for (const metric of new Set([...TRAFFIC_METRICS, ...[...tags.keys()].sort()])) {
    const [off, changed] = [disabled.get(metric) === true, tags.get(metric) ?? new Map<string, string | null>()];
    if (off || changed.size > 0)
      changes.set(metric, { disabled: off, tags: [...changed].sort(([a], [b]) => (a < b ? -1 : 1)) });
  }
  return changes;
}

type Override = NonNullable<MetricsEntry['overrides']>[number];

/** An entry without providers applies to the providers of the entry before it. */
function overridesOf({ defaultProviders }: MeshConfig, entries: readonly MetricsEntry[], provider: string): Override[] {
  let inherited = defaultProviders.metrics ?? [];
  return entries.flatMap(({ providers = [], overrides = [] }) => {
    if (providers.length > 0) inherited = providers.map(({ name }) => name);
    return inherited.includes(provider) ? overrides : [];
  });
}

/** Whether the documents add too many tags to a metric. */
export function addsTooMany(changes: ReadonlyMap<Metric, MetricChanges>): boolean {
  return [...changes.values()].some(
    ({ tags }) => tags.filter(([, expression]) => expression !== null).length > MAX_ADDED_TAGS,
  );
}

const STANDARD: ReadonlySet<Metric> = new Set(TRAFFIC_METRICS);

export function isStandard(metric: Metric): metric is TrafficMetric {
  return STANDARD.has(metric);
}

function metricsOf({ match = {} }: Override): readonly Metric[] {
  const { metric = 'ALL_METRICS', customMetric } = match;
  if (customMetric !== undefined) return [customMetric];
  return metric === 'ALL_METRICS' ? TRAFFIC_METRICS : [metric];
}
