/** Resources of the guarded kinds as documents that parse to the same resources again. */
import { isObject } from '../core/objects.ts';
import { type AnyResource, apiVersionsOf, isSecurityKind } from '../resources/index.ts';

export function storedDocument({ kind, meta, content }: AnyResource): Record<string, unknown> {
  const { name, namespace, labels, annotations, created } = meta;
  return {
    apiVersion: apiVersionsOf(kind)[0],
    kind,
    metadata: {
      name,
      namespace,
      labels,
      annotations,
      ...(created === undefined ? {} : { creationTimestamp: new Date(created).toISOString() }),
    },
    spec: writtenSpec(kind, content),
  };
}

/** Durations are the only fields whose parsed form, milliseconds, differs from that in documents. */
function writtenSpec(kind: AnyResource['kind'], content: unknown): unknown {
  if (isSecurityKind(kind)) return withWrittenTimeouts(content);
  // Parameters of handlers and instances are kept as they are written, and may have any field.
  const connection = isObject(content) ? content.connection : undefined;
  return isObject(content) && connection !== undefined
    ? { ...content, connection: withWrittenTimeouts(connection) }
    : content;
}

/** `timeout` is the only duration of the security kinds, and of connections of handlers. */
function withWrittenTimeouts(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withWrittenTimeouts);
  const entries = Object.entries(value).map(([key, item]) => [
    key,
    key === 'timeout' && typeof item === 'number' ? `${item}ms` : withWrittenTimeouts(item),
  ]);
  return Object.fromEntries(entries);
}
