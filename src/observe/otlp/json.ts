/**
 * Metrics and spans in the JSON of OTLP (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): 64-bit
 * numbers are strings, identifiers are hexadecimal, enumerations are numbers.
 */
import type { CompletedPush, PushStage } from '../recent/index.ts';

type Attributes = Readonly<Record<string, string | number | readonly string[] | undefined>>;

const SCOPE = { name: 'meshd' };
/** AggregationTemporality: values count from the start of the program. */
const CUMULATIVE = 2;
/** Span.SpanKind. */
const INTERNAL = 1;

const nanoseconds = (ms: number): string => String(BigInt(Math.round(ms * 1000)) * 1000n);

function attributesOf(attributes: Attributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: anyValue(value) }],
  );
}

function anyValue(value: string | number | readonly string[]): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value !== 'number') return { arrayValue: { values: value.map(anyValue) } };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

const resourceOf = (attributes: Attributes): object => ({ attributes: attributesOf(attributes) });

/** What prom-client returns for a metric. */
export interface Family {
  readonly name: string;
  readonly help: string;
  /** `counter`, `gauge` or `histogram`; prom-client declares numbers and returns these. */
  readonly type: unknown;
  readonly values: readonly {
    readonly value: number;
    readonly labels: Readonly<Partial<Record<string, string | number>>>;
    readonly metricName?: string;
  }[];
}

/** @param times Unix ms of the start of the program, and of now */
export function metricsJson(
  families: readonly Family[],
  resource: Attributes,
  times: { readonly start: number; readonly now: number },
): { readonly body: string; readonly points: number } {
  const [startTimeUnixNano, timeUnixNano] = [nanoseconds(times.start), nanoseconds(times.now)];
  const time = { startTimeUnixNano, timeUnixNano };
  let points = 0;
  const metrics = families.flatMap((family): object[] => {
    const { name, help: description } = family;
    const dataPoints = family.type === 'histogram' ? histogramPoints(family, time) : numberPoints(family, time);
    points += dataPoints.length;
    switch (dataPoints.length === 0 ? '' : family.type) {
      case 'counter':
        return [{ name, description, sum: { dataPoints, isMonotonic: true, aggregationTemporality: CUMULATIVE } }];
      case 'gauge':
        return [{ name, description, gauge: { dataPoints } }];
      case 'histogram':
        return [{ name, description, histogram: { dataPoints, aggregationTemporality: CUMULATIVE } }];
      default:
        return [];
    }
  });
  const resourceMetrics = [{ resource: resourceOf(resource), scopeMetrics: [{ scope: SCOPE, metrics }] }];
  return { body: JSON.stringify({ resourceMetrics }), points };
}

interface Time {
  readonly startTimeUnixNano: string;
  readonly timeUnixNano: string;
}

function numberPoints({ values }: Family, time: Time): object[] {
  return values
    .filter(({ value }) => Number.isFinite(value))
    .map(({ value, labels }) => ({ asDouble: value, attributes: attributesOf(labels), ...time }));
}

/** Counts of a bucket are those of this bucket alone; Prometheus adds the ones below. */
function histogramPoints({ name, values }: Family, time: Time): object[] {
  const series = Map.groupBy(values, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels));
  return [...series].map(([labels, lines]) => {
    const buckets = lines.filter(({ metricName }) => metricName === `${name}_bucket`);
    const total = (metricName: string): number => lines.find((line) => line.metricName === metricName)?.value ?? 0;
    const counts = buckets.map(({ value }, index) => String(value - (buckets[index - 1]?.value ?? 0)));
    return {
      attributes: attributesOf(JSON.parse(labels) as Attributes),
      ...time,
      count: String(total(`${name}_count`)),
      sum: total(`${name}_sum`),
      explicitBounds: buckets.map(({ labels: { le } }) => Number(le)).filter(Number.isFinite),
      bucketCounts: counts,
    };
  });
}

/** One trace for each push: the push, and its stages below it. */
export function tracesJson(
  pushes: readonly CompletedPush[],
  resource: Attributes,
  randomId: (bytes: 8 | 16) => string,
): { readonly body: string; readonly spans: number } {
  const spans = pushes.flatMap((push) => spansOf(push, randomId));
  const resourceSpans = [{ resource: resourceOf(resource), scopeSpans: [{ scope: SCOPE, spans }] }];
  return { body: JSON.stringify({ resourceSpans }), spans: spans.length };
}

const WORKED: readonly PushStage[] = ['views', 'generate', 'intern'];

function spansOf(push: CompletedPush, randomId: (bytes: 8 | 16) => string): object[] {
  const { at, stages, stageTimes, max } = push;
  const traceId = randomId(16);
  const parentSpanId = randomId(8);
  const debounced = at + (stages.debounce ?? 0);
  const published = debounced + (stages.snapshot ?? 0);
  const worked = Math.max(published, ...[...stageTimes.values()].map(({ end }) => end));
  const end = Math.max(worked, at + (max ?? 0));
  const span = (name: string, from: number, until: number, attributes: Attributes): object => ({
    traceId,
    spanId: randomId(8),
    parentSpanId,
    name,
    kind: INTERNAL,
    startTimeUnixNano: nanoseconds(from),
    endTimeUnixNano: nanoseconds(Math.max(from, until)),
    attributes: attributesOf(attributes),
  });
  const root = { ...span('push', at, end, pushAttributes(push)), spanId: parentSpanId, parentSpanId: '' };
  const ofStages = WORKED.flatMap((stage) => {
    const times = stageTimes.get(stage);
    // Summed over views, which are generated side by side.
    return times === undefined ? [] : [span(stage, times.begin, times.end, { 'mesh.stage.work_ms': stages[stage] })];
  });
  return [
    root,
    span('debounce', at, debounced, {}),
    span('snapshot', debounced, published, {}),
    ...ofStages,
    ...(max === undefined ? [] : [span('acknowledge', worked, at + max, {})]),
  ];
}

function pushAttributes(push: CompletedPush): Attributes {
  return {
    'mesh.push.version': push.version,
    'mesh.push.triggers': push.triggers,
    'mesh.push.resources': push.resources,
    'mesh.push.changed': push.changed,
    'mesh.push.bytes': push.bytes,
    'mesh.push.proxies.acknowledged': push.acknowledged,
    'mesh.push.proxies.under_way': push.underWay,
    'mesh.push.proxies.without_change': push.without,
    'mesh.push.p50_ms': push.p50,
    'mesh.push.p99_ms': push.p99,
  };
}
