/** Tracing settings of proxy configurations and Telemetry documents. */
import { z } from 'zod';
import { uint32 } from './common.ts';
import { clientTlsSettings } from './tls-settings.ts';

/** Limits of the tags of a proxy's spans: their number, and the length of names and values. */
export const MAX_CUSTOM_TAGS = 64;
const MAX_TAG_CHARACTERS = 1024;

const tagText = z.string().max(MAX_TAG_CHARACTERS);
const tagName = tagText.min(1);

/** The value of a tag: written out, or read from a variable of Envoy, a request header or Envoy's command operators. */
export const customTag = z
  .strictObject({
    literal: z.strictObject({ value: tagName }).optional(),
    environment: z.strictObject({ name: tagName, defaultValue: tagText.optional() }).optional(),
    header: z
      .strictObject({
        // A field name of RFC 9110, section 5.1: Envoy refuses others.
        name: tagName.regex(/^:?[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, 'expected the name of a header'),
        defaultValue: tagText.optional(),
      })
      .optional(),
    formatter: z.strictObject({ value: tagName }).optional(),
  })
  .refine((tag) => Object.values(tag).filter((source) => source !== undefined).length === 1, {
    error: 'expected exactly one of literal, environment, header and formatter',
  });
export type CustomTag = z.output<typeof customTag>;

export const customTags = z.record(tagName, customTag).refine((tags) => Object.keys(tags).length <= MAX_CUSTOM_TAGS, {
  error: `expected at most ${MAX_CUSTOM_TAGS} tags`,
});
export type CustomTags = z.output<typeof customTags>;

export const percentage = z.number().min(0).max(100);

const collector = z.strictObject({ address: z.string().optional() });

/** `tracing` of a proxy configuration. */
export const tracing = z.strictObject({
  zipkin: collector.optional(),
  datadog: collector.optional(),
  /** No supported Envoy has these tracers. */
  lightstep: z.strictObject({ address: z.string().optional(), accessToken: z.string().optional() }).optional(),
  stackdriver: z.record(z.string(), z.json()).optional(),
  openCensusAgent: z.record(z.string(), z.json()).optional(),
  sampling: percentage.optional(),
  maxPathTagLength: uint32.optional(),
  customTags: customTags.optional(),
  enableIstioTags: z.boolean().optional(),
  tlsSettings: clientTlsSettings.optional(),
});
export type ProxyTracing = z.output<typeof tracing>;
