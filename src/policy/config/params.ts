/** The parameters of handlers of the adapters inside. */
import type { AdapterParams } from '../../resources/index.ts';
import type {
  DenierParams,
  ListParams,
  MemoryQuotaParams,
  PrometheusMetric,
  PrometheusParams,
  RedisQuotaParams,
  StdioLevel,
  StdioParams,
} from '../types.ts';
import { instanceId, meanings, type Reference, visibleMeanings } from './references.ts';

/** Names that stand for the kind of an instance in references. */
export const INSTANCE_KINDS: ReadonlySet<string> = new Set([
  'instance',
  'checknothing',
  'listentry',
  'logentry',
  'metric',
  'quota',
]);

export function denierParams({ status, validDuration, validUseCount }: AdapterParams<'denier'>): DenierParams {
  return { status, validDurationMs: validDuration, validUseCount };
}

export function listParams(params: AdapterParams<'listchecker'>): ListParams {
  const { providerUrl, refreshInterval, ttl, cachingInterval, cachingUseCount, overrides, entryType, blacklist } =
    params;
  return {
    ...(providerUrl === undefined ? {} : { providerUrl }),
    refreshIntervalMs: refreshInterval,
    ttlMs: ttl,
    cachingIntervalMs: cachingInterval,
    cachingUseCount,
    overrides,
    entryType,
    blacklist,
  };
}

/** The instances that a reference in a rule may mean. */
export function instanceMeanings(
  text: string,
  of: { readonly namespace: string; readonly configNamespace: string },
): readonly Reference[] {
  return visibleMeanings(text, of, INSTANCE_KINDS);
}

/** The ID of the instance that a handler's parameters name. */
function instanceNamed(text: string, namespace: string): string {
  const [meaning] = meanings(text, namespace, INSTANCE_KINDS);
  return meaning === undefined ? text : instanceId(meaning);
}

const mapOf = (record: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
  new Map(Object.entries(record));

export function memoryQuotaParams(params: AdapterParams<'memquota'>, namespace: string): MemoryQuotaParams {
  return {
    quotas: params.quotas.map(({ name, maxAmount, validDuration, overrides }) => ({
      name: instanceNamed(name, namespace),
      maxAmount,
      validDurationMs: validDuration,
      overrides: overrides.map((override) => ({
        dimensions: mapOf(override.dimensions),
        maxAmount: override.maxAmount,
        validDurationMs: override.validDuration ?? validDuration,
      })),
    })),
    minDeduplicationDurationMs: params.minDeduplicationDuration,
  };
}

export function redisQuotaParams(params: AdapterParams<'redisquota'>, namespace: string): RedisQuotaParams {
  return {
    quotas: params.quotas.map(({ name, maxAmount, validDuration, bucketDuration, rateLimitAlgorithm, overrides }) => ({
      name: instanceNamed(name, namespace),
      maxAmount,
      validDurationMs: validDuration,
      bucketDurationMs: bucketDuration,
      rateLimitAlgorithm,
      overrides: overrides.map((override) => ({
        dimensions: mapOf(override.dimensions),
        maxAmount: override.maxAmount,
        validDurationMs: validDuration,
      })),
    })),
    redisServerUrl: params.redisServerUrl,
    connectionPoolSize: params.connectionPoolSize,
  };
}

/** Severities that log entries usually have. */
const SEVERITIES: Readonly<Record<string, StdioLevel>> = Object.fromEntries(
  (
    [
      ['INFO', ['informational', 'info']],
      ['WARNING', ['warning', 'warn']],
      ['ERROR', ['error', 'err', 'fatal']],
    ] as const
  ).flatMap(([level, names]) => names.flatMap((name) => [name, name.toUpperCase()].map((each) => [each, level]))),
);

export function stdioParams(params: AdapterParams<'stdio'>): StdioParams {
  const { logStream, severityLevels = SEVERITIES, metricLevel, outputLevel, outputAsJson } = params;
  return { logStream, severityLevels: new Map(Object.entries(severityLevels)), metricLevel, outputLevel, outputAsJson };
}

export function prometheusParams(params: AdapterParams<'prometheus'>, namespace: string): PrometheusParams {
  const { metrics, metricsExpirationPolicy: expiry } = params;
  return {
    metrics: metrics.map((metric): PrometheusMetric => {
      const { name, instanceName, description, kind, labelNames } = metric;
      return {
        name: safeName(`${metric.namespace}_${name === '' ? instanceName : name}`),
        instanceName: instanceNamed(instanceName, namespace),
        description,
        kind,
        buckets: bucketsOf(metric.buckets),
        labelNames,
      };
    }),
    ...(expiry === undefined
      ? {}
      : {
          expiryMs: expiry.metricsExpiryDuration,
          expiryCheckIntervalMs: expiry.expiryCheckIntervalDuration ?? expiry.metricsExpiryDuration / 2,
        }),
  };
}

/** https://prometheus.io/docs/concepts/data_model/#metric-names-and-labels */
function safeName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_]/g, '_').replace(/^(?=\d)/, '_');
}

type Buckets = NonNullable<AdapterParams<'prometheus'>['metrics'][number]['buckets']>;

function bucketsOf({ linearBuckets, exponentialBuckets, explicitBuckets }: Buckets = {}): readonly number[] {
  if (explicitBuckets !== undefined) return explicitBuckets.bounds;
  if (linearBuckets !== undefined) {
    const { numFiniteBuckets, width, offset } = linearBuckets;
    return Array.from({ length: numFiniteBuckets + 1 }, (_, index) => offset + width * index);
  }
  if (exponentialBuckets === undefined) return [];
  const { numFiniteBuckets, growthFactor, scale } = exponentialBuckets;
  return Array.from({ length: numFiniteBuckets + 1 }, (_, index) => scale * growthFactor ** index);
}
