/**
 * A resource of the security kinds as the document that it was read from: what the parser makes the same resource of
 * again.
 */
import type { AnyResource } from '../resources/index.ts';

export function documentOf({ kind, meta, content }: AnyResource): Record<string, unknown> {
  const { name, namespace, labels, annotations, created } = meta;
  return {
    apiVersion: 'security.mesh.io/v1beta1',
    kind,
    metadata: {
      name,
      namespace,
      labels,
      annotations,
      ...(created === undefined ? {} : { creationTimestamp: new Date(created).toISOString() }),
    },
    spec: withWrittenDurations(content),
  };
}

/** `timeout` is the one field whose parsed form is not what documents write: milliseconds. */
function withWrittenDurations(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withWrittenDurations);
  const entries = Object.entries(value).map(([key, item]) => [
    key,
    key === 'timeout' && typeof item === 'number' ? `${item}ms` : withWrittenDurations(item),
  ]);
  return Object.fromEntries(entries);
}
