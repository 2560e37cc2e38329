/** Whether and how the proxies of a view have metrics of their requests and connections. */
import {
  type ExtensionProvider,
  type MeshConfig,
  type MetricsEntry,
  TRAFFIC_METRICS,
} from '../../../../resources/index.ts';
import { type MeshReader, noteAll, type Recorded, recorded } from '../../../reads/index.ts';
import type { EnvoyView } from '../../../views.ts';
import { ISTIO_STATS_FILTER, listsExtension, STATS_ACCESS_LOG } from '../../extensions.ts';
import { type Direction, directionOf } from '../documents.ts';
import { providerNamed, type Unavailable } from '../providers.ts';
import {
  addsTooMany,
  changesFor,
  isStandard,
  MAX_ADDED_TAGS,
  type Metric,
  type MetricChanges,
  metricProviders,
} from './asked.ts';
import { LOGGED } from './logged.ts';
import type { MetricsSource } from './service-metadata.ts';

/** Plain data, which is compared as a whole. */
export interface MetricsPlan {
  readonly source: MetricsSource;
  readonly direction: Direction;
  readonly changes: Readonly<Partial<Record<Metric, MetricChanges>>>;
  /** How often open connections are counted, in milliseconds; absent: the default of the filter. */
  readonly reportingInterval?: number;
}

/** The provider that meshes of Istio refer to without a definition. */
const PROMETHEUS: ExtensionProvider = { name: 'prometheus', prometheus: {} };

export function metricsPlan(snapshot: MeshReader, view: EnvoyView, problems: string[]): MetricsPlan | undefined {
  const { mesh } = snapshot;
  const entries = entriesOf(snapshot, view);
  const provider = prometheusAmong(mesh, metricProviders(mesh, entries), problems);
  if (provider === undefined) return undefined;
  const source = sourceOf(view);
  if (source === undefined) {
    problems.push(`no metrics: the proxy's Envoy has neither ${ISTIO_STATS_FILTER} nor ${STATS_ACCESS_LOG} of 1.40`);
    return undefined;
  }
  const direction = directionOf(view);
  const changes = changesFor(mesh, entries, provider, direction);
  if (addsTooMany(changes)) {
    problems.push(`no metrics: Telemetry documents add more than ${MAX_ADDED_TAGS} tags to a metric`);
    return undefined;
  }
  const known = source === 'logger' ? LOGGED.map(([metric]) => metric) : TRAFFIC_METRICS;
  if (known.every((metric) => changes.get(metric)?.disabled === true)) return undefined;
  const { reportingInterval } = entries.findLast((entry) => entry.reportingInterval !== undefined) ?? {};
  if (reportingInterval !== undefined && source === 'logger')
    problems.push(`reportingInterval has no effect: ${STATS_ACCESS_LOG} counts a connection when it ends`);
  const counted = [...changes].filter(([metric]) => source === 'filter' || isStandard(metric));
  if (counted.length < changes.size)
    problems.push(`customMetric has no effect: ${STATS_ACCESS_LOG} has standard metrics only`);
  return {
    source,
    direction,
    changes: Object.fromEntries(counted),
    ...(reportingInterval !== undefined && source === 'filter' && { reportingInterval }),
  };
}

/**
 * The extension that records the metrics of the view's proxies; undefined if they have none. Equal for all units of a
 * view.
 */
export function metricsSource(snapshot: MeshReader, view: EnvoyView): MetricsSource | undefined {
  const { memos } = snapshot;
  const memo = memos.pairs<MeshReader, EnvoyView, Recorded<MetricsSource | undefined>>('metrics of views');
  const { value, facts } = memo.get(snapshot, view, () => recorded(() => metricsPlan(snapshot, view, [])?.source));
  noteAll(facts);
  return value;
}

function entriesOf(snapshot: MeshReader, { telemetry = [] }: EnvoyView): readonly MetricsEntry[] {
  return telemetry.flatMap((key) => snapshot.metrics.get(key) ?? []);
}

/** The first of the providers that is Prometheus. */
function prometheusAmong(mesh: MeshConfig, names: readonly string[], problems: string[]): string | undefined {
  let found: string | undefined;
  for (const name of names) {
    const provider = namedOrKnown(mesh, name);
    if ('problem' in provider) problems.push(`no metrics: ${provider.problem}`);
    else if (provider.prometheus === undefined)
      problems.push(`no metrics: extension provider ${name} must be prometheus`);
    else found ??= name;
  }
  return found;
}

function namedOrKnown(mesh: MeshConfig, name: string): ExtensionProvider | Unavailable {
  const isDefined = mesh.extensionProviders.some((each) => each.name === name);
  return !isDefined && name === PROMETHEUS.name ? PROMETHEUS : providerNamed(mesh, name);
}

/**
 * Only an extension that the proxy lists is used: most builds of Envoy have neither. The logger limits its series since
 * 1.40.
 */
function sourceOf(view: EnvoyView): MetricsSource | undefined {
  if (listsExtension(view, ISTIO_STATS_FILTER)) return 'filter';
  return view.capabilities.fieldsOf140 === true && listsExtension(view, STATS_ACCESS_LOG) ? 'logger' : undefined;
}
