/**
 * Access logs, spans and metrics of a view's listeners, from the mesh configuration, Telemetry documents and the
 * proxy's own configuration. One object for equal results, so that other results can be cached by it.
 */
import type { Memos } from '../../../core/memo.ts';
import type { OwnTracing } from '../../../core/tracing.ts';
import { envoy, packAny } from '../../../protobuf/index.ts';
import type { TelemetrySpec } from '../../../resources/index.ts';
import { scopeOfView } from '../../common/index.ts';
import { type MeshReader, noteAll, type Recorded, recorded } from '../../reads/index.ts';
import type { Capabilities, EnvoyView } from '../../views.ts';
import { CEL_LOG_FILTER, hasExtension, sharedCapabilities, type TypedConfig } from '../extensions.ts';
import { recordLogs } from '../policy.ts';
import { accessLog, type LogPlan } from './access-log.ts';
import { directionOf, loggersOf, spansOf } from './documents.ts';
import { ISTIO_TAGS } from './istio-tags.ts';
import { logOf, meshLogs } from './log-providers.ts';
import { type MetricsPlan, metricsPlan } from './metrics/plan.ts';
import { statsFilter } from './metrics/stats-filter.ts';
import { statsLoggers } from './metrics/stats-logger.ts';
import { providerNamed } from './providers.ts';
import { type TracingPlan, tracerOf, tracingMessage } from './tracing.ts';

type AccessLogs = readonly envoy.config.accesslog.v3.AccessLog.Input[];

export interface Telemetry {
  /** Absent: no spans. */
  readonly tracing?: envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Tracing.Input;
  /** Of the connection manager. Absent: Envoy's default, by which the request ID decides about sampling. */
  readonly requestId?: RequestIdExtension;
  readonly requestLogs: AccessLogs;
  readonly connectionLogs: AccessLogs;
  /** The filter that counts, for requests and for connections; absent: none. */
  readonly statsFilter?: TypedConfig;
}

type Manager = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input;
type RequestIdExtension = NonNullable<Manager['requestIdExtension']>;

/** Plain data that completely determines the messages. */
interface TelemetryPlan {
  readonly logs: readonly LogPlan[];
  readonly tracing?: TracingPlan;
  readonly metrics?: MetricsPlan;
}

/** A mesh has a few results, but proxies can request anything. The least recently used result is evicted. */
const MAX_SHARED = 256;

export function telemetryOf(snapshot: MeshReader, view: EnvoyView): Telemetry {
  return planned(snapshot, view).telemetry;
}

function shared(memos: Memos, plan: TelemetryPlan, view: EnvoyView): Telemetry {
  const capabilities = sharedCapabilities(memos, view);
  const byText = memos.weak<Capabilities, Map<string, Telemetry>>('telemetry').get(capabilities, () => new Map());
  const text = JSON.stringify(plan);
  const telemetry = byText.get(text) ?? built(plan, capabilities);
  byText.delete(text);
  byText.set(text, telemetry);
  const [oldest] = byText.size > MAX_SHARED ? byText.keys() : [];
  if (oldest !== undefined) byText.delete(oldest);
  return telemetry;
}

function randomSampling(): RequestIdExtension {
  const { UuidRequestIdConfig } = envoy.extensions.request_id.uuid.v3;
  return { typedConfig: packAny(UuidRequestIdConfig, { useRequestIdForTraceSampling: { value: false } }) };
}

function built({ logs, tracing, metrics }: TelemetryPlan, capabilities: Capabilities): Telemetry {
  const loggers = (of: 'requests' | 'connections') => [
    ...logs.flatMap((log) => accessLog(log, of, { capabilities }) ?? []),
    ...(metrics?.source === 'logger' ? statsLoggers(metrics, of) : []),
  ];
  return {
    ...(tracing !== undefined && { tracing: tracingMessage(tracing) }),
    ...(tracing?.requestIdDecides === false && { requestId: randomSampling() }),
    requestLogs: loggers('requests'),
    connectionLogs: loggers('connections'),
    ...(metrics?.source === 'filter' && { statsFilter: statsFilter(metrics) }),
  };
}

/** Whether requests of the view may have spans: their routes then name the operation. */
export function isTraced(snapshot: MeshReader, view: EnvoyView): boolean {
  return planned(snapshot, view).plan.tracing !== undefined;
}

/** Why requested telemetry is missing: one line each. */
export function telemetryProblems(snapshot: MeshReader, view: EnvoyView): readonly string[] {
  return planned(snapshot, view).problems;
}

interface Planned {
  readonly plan: TelemetryPlan;
  readonly telemetry: Telemetry;
  readonly problems: readonly string[];
}

/** The same for all units of a view. */
function planned(snapshot: MeshReader, view: EnvoyView): Planned {
  const { memos } = snapshot;
  const memo = memos.pairs<MeshReader, EnvoyView, Recorded<Planned>>('telemetry of views');
  const { value, facts } = memo.get(snapshot, view, () => recorded(() => plannedNow(snapshot, view)));
  noteAll(facts);
  return value;
}

function plannedNow(snapshot: MeshReader, view: EnvoyView): Planned {
  const problems: string[] = [];
  const logs = [...logPlans(snapshot, view, problems), ...recordLogs(snapshot, view)];
  const tracing = tracingPlan(snapshot, view, problems);
  const metrics = metricsPlan(snapshot, view, problems);
  const plan = {
    logs,
    ...(tracing !== undefined && { tracing }),
    ...(metrics !== undefined && { metrics }),
  };
  return { plan, telemetry: shared(snapshot.memos, plan, view), problems };
}

function logPlans(snapshot: MeshReader, view: EnvoyView, problems: string[]): LogPlan[] {
  const { mesh } = snapshot;
  return loggersOf(mesh, documentsOf(snapshot, view), directionOf(view)).flatMap(({ provider: name, only }) => {
    if (only !== undefined && !hasExtension(view, CEL_LOG_FILTER)) {
      problems.push(`no access log: the proxy's Envoy has no ${CEL_LOG_FILTER}`);
      return [];
    }
    const condition = only !== undefined && { only };
    if (name === undefined) return meshLogs(mesh).map((log) => ({ ...log, ...condition }));
    const provider = providerNamed(mesh, name);
    const log = 'problem' in provider ? provider : logOf(scopeOfView(snapshot, view), provider);
    if (!('problem' in log)) return [{ ...log, ...condition }];
    problems.push(`no access log: ${log.problem}`);
    return [];
  });
}

function documentsOf(snapshot: MeshReader, { telemetry = [] }: EnvoyView): TelemetrySpec[] {
  const documents = snapshot.resources('Telemetry');
  return telemetry.flatMap((key) => documents.get(key)?.content ?? []);
}

/** The tags that the proxy's Envoy supports: with others, it would refuse the listener. */
function usableTags(
  tags: OwnTracing['customTags'],
  { capabilities }: EnvoyView,
  problems: string[],
): OwnTracing['customTags'] {
  if (tags === undefined || capabilities.fieldsOf140 === true) return tags;
  const [known, unknown] = [false, true].map((isFormat) =>
    Object.entries(tags).filter(([, { formatter }]) => (formatter !== undefined) === isFormat),
  );
  for (const [name] of unknown ?? [])
    problems.push(`no tag ${name}: the proxy's Envoy does not support tags with a formatter`);
  return Object.fromEntries(known ?? []);
}

function tracingPlan(snapshot: MeshReader, view: EnvoyView, problems: string[]): TracingPlan | undefined {
  const { mesh, settings } = snapshot;
  const own = view.tracing ?? mesh.defaultConfig.tracing;
  const asked = spansOf(mesh, documentsOf(snapshot, view), directionOf(view));
  const wanted = asked.written || (mesh.enableTracing && (own !== undefined || asked.provider !== undefined));
  if (!wanted || asked.disabled) return undefined;
  const { maxPathTagLength } = own ?? {};
  const written = usableTags(asked.customTags ?? own?.customTags, view, problems);
  const ofIstio = (asked.enableIstioTags ?? own?.enableIstioTags) === true && istioTags(view, problems);
  const customTags = ofIstio ? { ...ofIstio, ...written } : written;
  const shape: TracingPlan = {
    sampling: asked.sampling ?? own?.sampling ?? settings.traceSampling,
    ...(maxPathTagLength !== undefined && { maxPathTagLength }),
    ...(customTags !== undefined && { customTags }),
    ...(asked.propagates === false && usablePropagation(view, problems)),
    ...(asked.requestIdDecides === false && { requestIdDecides: false }),
    ...(view.part === 'gateway' && { isGateway: true }),
  };
  if (asked.provider === undefined) return shape;
  const provider = providerNamed(mesh, asked.provider);
  const tracer = 'problem' in provider ? provider : tracerOf(view, scopeOfView(snapshot, view), provider);
  if (!('problem' in tracer)) return { ...shape, tracer };
  problems.push(`no spans: ${tracer.problem}`);
  return undefined;
}

function istioTags({ capabilities }: EnvoyView, problems: string[]): OwnTracing['customTags'] {
  if (capabilities.fieldsOf140 === true) return ISTIO_TAGS;
  problems.push("enableIstioTags has no effect: the proxy's Envoy does not support tags with a formatter");
  return undefined;
}

function usablePropagation({ capabilities }: EnvoyView, problems: string[]): Pick<TracingPlan, 'propagates'> {
  if (capabilities.fieldsOf140 === true) return { propagates: false };
  problems.push("disableContextPropagation has no effect: the proxy's Envoy cannot omit trace headers");
  return {};
}
