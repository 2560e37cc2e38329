/** Telemetry: spans, access logs and metrics of workloads. */
import { z } from 'zod';
import { TRAFFIC_METRICS } from '../traffic-metrics.ts';
import { duration, targetRef, workloadSelector } from './common.ts';
import { customTags, percentage } from './tracing.ts';

/**
 * Maximum number of entries of a document, and of providers of an entry: a document is read for every listener of its
 * workloads.
 */
export const MAX_ENTRIES = 16;
export const MAX_EXPRESSION_CHARACTERS = 2048;
/** Maximum number of tags in one override: Envoys evaluate each tag for each request. */
export const MAX_METRIC_TAGS = 16;
/** Of all overrides of a document together: what they change is computed for each view of proxies. */
const MAX_TAG_OVERRIDES = 512;
const MAX_TAG_NAME_CHARACTERS = 128;
const MAX_TAG_EXPRESSION_CHARACTERS = 256;

const mode = z.enum(['CLIENT_AND_SERVER', 'CLIENT', 'SERVER']).optional();
const match = z.strictObject({ mode }).optional();
const providers = z
  .array(z.strictObject({ name: z.string().min(1) }))
  .max(MAX_ENTRIES)
  .optional();

const tracingEntry = z.strictObject({
  match,
  providers,
  randomSamplingPercentage: percentage.optional(),
  disableSpanReporting: z.boolean().optional(),
  customTags: customTags.optional(),
  useRequestIdForTraceSampling: z.boolean().optional(),
  enableIstioTags: z.boolean().optional(),
  disableContextPropagation: z.boolean().optional(),
});

const accessLoggingEntry = z.strictObject({
  match,
  providers,
  disabled: z.boolean().optional(),
  filter: z.strictObject({ expression: z.string().max(MAX_EXPRESSION_CHARACTERS).optional() }).optional(),
});

/** The name of a label of Prometheus (https://prometheus.io/docs/concepts/data_model). */
const labelName = z
  .string()
  .max(MAX_TAG_NAME_CHARACTERS)
  .regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/, 'expected the name of a label: letters, digits and _');

const tagOverride = z.strictObject({
  /** Absent: UPSERT. */
  operation: z.enum(['UPSERT', 'REMOVE']).optional(),
  /** An expression of CEL. */
  value: z.string().max(MAX_TAG_EXPRESSION_CHARACTERS).optional(),
});

const metricsOverride = z.strictObject({
  match: z
    .strictObject({
      metric: z.enum(['ALL_METRICS', ...TRAFFIC_METRICS]).optional(),
      customMetric: z.string().min(1).max(MAX_TAG_NAME_CHARACTERS).optional(),
      mode,
    })
    .optional(),
  disabled: z.boolean().optional(),
  tagOverrides: z
    .record(labelName, tagOverride)
    .refine((tags) => Object.keys(tags).length <= MAX_METRIC_TAGS, {
      error: `expected at most ${MAX_METRIC_TAGS} tags`,
    })
    .optional(),
});

const metricsEntry = z.strictObject({
  providers,
  overrides: z.array(metricsOverride).max(MAX_ENTRIES).optional(),
  reportingInterval: duration.optional(),
});
export type MetricsEntry = z.output<typeof metricsEntry>;

function tagOverridesIn(entries: readonly MetricsEntry[]): number {
  const overrides = entries.flatMap(({ overrides = [] }) => overrides);
  return overrides.reduce((count, { tagOverrides = {} }) => count + Object.keys(tagOverrides).length, 0);
}

export const telemetry = z.strictObject({
  selector: workloadSelector.optional(),
  targetRef: targetRef.optional(),
  targetRefs: z.array(targetRef).optional(),
  tracing: z.array(tracingEntry).max(MAX_ENTRIES).optional(),
  accessLogging: z.array(accessLoggingEntry).max(MAX_ENTRIES).optional(),
  metrics: z
    .array(metricsEntry)
    .max(MAX_ENTRIES)
    .refine((entries) => tagOverridesIn(entries) <= MAX_TAG_OVERRIDES, {
      error: `expected at most ${MAX_TAG_OVERRIDES} tags in tagOverrides of all metrics together`,
    })
    .optional(),
});
export type TelemetrySpec = z.output<typeof telemetry>;
