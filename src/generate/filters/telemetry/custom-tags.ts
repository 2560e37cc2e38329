/** Custom tags of spans, sorted by name. */

import type { OwnTracing, SpanTag } from '../../../core/tracing.ts';
import type { envoy } from '../../../protobuf/index.ts';

type Message = envoy.type.tracing.v3.CustomTag.Input;

export function customTagMessages(tags: NonNullable<OwnTracing['customTags']>): Message[] {
  return Object.entries(tags)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([tag, source]) => ({ tag, ...sourceOf(source) }));
}

function sourceOf({ literal, environment, header, formatter }: SpanTag): Message {
  if (literal !== undefined) return { literal };
  if (environment !== undefined) return { environment };
  if (header !== undefined) return { requestHeader: header };
  return formatter === undefined ? {} : { value: formatter.value };
}
