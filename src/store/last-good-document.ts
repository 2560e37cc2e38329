/**
 * A resource of the security kinds as a document that parses to the same resource again.
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

/** `timeout` is the only field whose parsed form differs from that in documents: milliseconds. */
function withWrittenDurations(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withWrittenDurations);
  const entries = Object.entries(value).map(([key, item]) => [
    key,
    key === 'timeout' && typeof item === 'number' ? `${item}ms` : withWrittenDurations(item),
  ]);
  return Object.fromEntries(entries);
}
