/**
 * The parameters of the adapters and templates inside. Fields may be written in camel case or, as in the documents of
 * Istio, with underscores. Durations are milliseconds, quantities numbers, after parsing.
 */
import { z } from 'zod';
import { duration, int32, stringMap } from './common.ts';
import type { ADAPTERS, TEMPLATES } from './policy.ts';

const MAX_SAFE = Number.MAX_SAFE_INTEGER;
const quantity = z
  .union([
    z.int(),
    z
      .string()
      .regex(/^\d{1,16}$/, 'expected a whole number')
      .transform(Number),
  ])
  .pipe(z.int().min(0, 'expected a number of at least 0').max(MAX_SAFE));
const count = int32.min(0, 'expected a number of at least 0');
const notNegative = duration.pipe(z.number().min(0, 'expected a duration of at least 0s'));
const level = z.enum(['INFO', 'WARNING', 'ERROR']);

const denier = z.strictObject({
  status: z
    .strictObject({
      code: z.int().min(1, 'expected a code of gRPC from 1 to 16').max(16, 'expected a code of gRPC from 1 to 16'),
      message: z.string().default(''),
    })
    .default({ code: 9, message: '' }),
  validDuration: notNegative.default(5000),
  validUseCount: count.default(1000),
});

const listchecker = z.strictObject({
  providerUrl: z.string().optional(),
  refreshInterval: notNegative.default(60_000),
  ttl: notNegative.default(300_000),
  cachingInterval: notNegative.default(300_000),
  cachingUseCount: count.default(10_000),
  overrides: z.array(z.string()).default([]),
  entryType: z.enum(['STRINGS', 'CASE_INSENSITIVE_STRINGS', 'IP_ADDRESSES', 'REGEX']).default('STRINGS'),
  blacklist: z.boolean().default(false),
});

const memoryOverride = z.strictObject({
  dimensions: stringMap.default({}),
  maxAmount: quantity,
  validDuration: notNegative.optional(),
});

const memquota = z.strictObject({
  quotas: z
    .array(
      z.strictObject({
        name: z.string(),
        maxAmount: quantity,
        validDuration: notNegative.default(0),
        overrides: z.array(memoryOverride).default([]),
      }),
    )
    .default([]),
  minDeduplicationDuration: duration.pipe(z.number().min(1, 'expected a duration of at least 1ms')).default(1000),
});

const redisquota = z.strictObject({
  quotas: z
    .array(
      z.strictObject({
        name: z.string(),
        maxAmount: quantity,
        validDuration: duration.pipe(z.number().min(1, 'expected a duration of at least 1ms')),
        bucketDuration: notNegative.default(0),
        rateLimitAlgorithm: z.enum(['FIXED_WINDOW', 'ROLLING_WINDOW']).default('FIXED_WINDOW'),
        overrides: z.array(z.strictObject({ dimensions: stringMap, maxAmount: quantity })).default([]),
      }),
    )
    .min(1, 'expected at least one quota'),
  redisServerUrl: z.string().default('localhost:6379'),
  connectionPoolSize: z.int().min(1).max(100, 'expected at most 100 connections').default(10),
});

const stdio = z.strictObject({
  logStream: z.enum(['STDOUT', 'STDERR'], 'expected STDOUT or STDERR').default('STDOUT'),
  severityLevels: z.record(z.string(), level).optional(),
  metricLevel: level.default('INFO'),
  outputLevel: level.default('INFO'),
  outputAsJson: z.boolean().default(true),
});

const MAX_BUCKETS = 200;
const buckets = z.strictObject({
  linearBuckets: z
    .strictObject({
      numFiniteBuckets: z.int().min(1).max(MAX_BUCKETS),
      width: z.number().gt(0),
      offset: z.number().default(0),
    })
    .optional(),
  exponentialBuckets: z
    .strictObject({
      numFiniteBuckets: z.int().min(1).max(MAX_BUCKETS),
      growthFactor: z.number().gt(1),
      scale: z.number().gt(0),
    })
    .optional(),
  explicitBuckets: z.strictObject({ bounds: z.array(z.number()).min(1).max(MAX_BUCKETS) }).optional(),
});

const prometheus = z.strictObject({
  metrics: z
    .array(
      z.strictObject({
        namespace: z.string().default('istio'),
        name: z.string().default(''),
        instanceName: z.string(),
        description: z.string().default(''),
        kind: z.enum(['GAUGE', 'COUNTER', 'DISTRIBUTION']),
        buckets: buckets.optional(),
        labelNames: z.array(z.string()).default([]),
      }),
    )
    .max(1000, 'expected at most 1000 metrics')
    .default([]),
  metricsExpirationPolicy: z
    .strictObject({
      metricsExpiryDuration: duration.pipe(z.number().min(1, 'expected a duration of at least 1ms')),
      expiryCheckIntervalDuration: notNegative.optional(),
    })
    .optional(),
});

export const ADAPTER_PARAMS = {
  denier,
  listchecker,
  memquota,
  prometheus,
  redisquota,
  stdio,
} as const satisfies Record<(typeof ADAPTERS)[number], z.ZodType>;

/** Values are expressions. */
const expressions = z.record(z.string(), z.string());

/** For adapters that know monitored resources; those inside do not. */
const monitored = {
  monitoredResourceType: z.string().optional(),
  monitoredResourceDimensions: expressions.optional(),
};

export const TEMPLATE_PARAMS = {
  checknothing: z.strictObject({}),
  listentry: z.strictObject({ value: z.string() }),
  logentry: z.strictObject({
    variables: expressions.default({}),
    timestamp: z.string().optional(),
    severity: z.string().default('"info"'),
    ...monitored,
  }),
  metric: z.strictObject({ value: z.string(), dimensions: expressions.default({}), ...monitored }),
  quota: z.strictObject({ dimensions: expressions.default({}) }),
} as const satisfies Record<(typeof TEMPLATES)[number], z.ZodType>;

export type AdapterParams<A extends (typeof ADAPTERS)[number]> = z.output<(typeof ADAPTER_PARAMS)[A]>;
export type TemplateParams<T extends (typeof TEMPLATES)[number]> = z.output<(typeof TEMPLATE_PARAMS)[T]>;
