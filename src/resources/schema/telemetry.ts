/** Telemetry: spans, access logs and metrics of workloads. */
import { z } from 'zod';
import { targetRef, workloadSelector } from './common.ts';
import { customTags, percentage } from './tracing.ts';

/** One document is read for every listener of its workloads: at most so many entries, and providers of an entry. */
export const MAX_ENTRIES = 16;
export const MAX_EXPRESSION_CHARACTERS = 2048;

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

export const telemetry = z.strictObject({
  selector: workloadSelector.optional(),
  targetRef: targetRef.optional(),
  targetRefs: z.array(targetRef).optional(),
  tracing: z.array(tracingEntry).max(MAX_ENTRIES).optional(),
  accessLogging: z.array(accessLoggingEntry).max(MAX_ENTRIES).optional(),
  /** Reported and not acted on. */
  metrics: z.array(z.record(z.string(), z.json())).max(MAX_ENTRIES).optional(),
});
export type TelemetrySpec = z.output<typeof telemetry>;
