/** What a mesh reads of a document's metadata (Kubernetes ObjectMeta), and which document it identifies. */
import { z } from 'zod';
import { isClusterScoped } from '../kinds/aliases.ts';
import { type Kind, type ResourceKey, resourceKey } from '../kinds/types.ts';
import { UNKNOWN_FIELD, type ValidationError } from './issues.ts';
import { resembles } from './resembles.ts';
import type { SubstituteName } from './substitute.ts';

/** Namespace of a namespaced resource that names none. */
export const DEFAULT_NAMESPACE = 'default';

/** A valid name of the orchestrator: RFC 1123 labels separated by dots. */
const NAME = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;
const NAMESPACE = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const MAX_NAME = 253;
const MAX_NAMESPACE = 63;

export const metadata = z.object({
  name: z
    .string()
    .max(MAX_NAME, 'expected at most 253 characters')
    .regex(NAME, 'expected lower-case letters, digits, - and .'),
  namespace: z
    .string()
    .max(MAX_NAMESPACE, 'expected at most 63 characters')
    .regex(NAMESPACE, 'expected lower-case letters, digits and -')
    .optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  generation: z.int().min(0).optional(),
  creationTimestamp: z.iso.datetime({ offset: true, error: 'expected a time such as 2020-09-01T12:00:00Z' }).optional(),
  deletionTimestamp: z.iso.datetime({ offset: true, error: 'expected a time such as 2020-09-01T12:00:00Z' }).optional(),
});

/** Name and namespace as far as they can be read; no namespace where it cannot be determined. */
export function namesIn(written: unknown): SubstituteName {
  const fields = isObject(written) ? written : {};
  const name = metadata.shape.name.safeParse(fields.name);
  const misspelt = Object.keys(fields).find((field) => isMisspeltNamespace(field, fields));
  const place = misspelt === undefined ? (fields.namespace ?? DEFAULT_NAMESPACE) : fields[misspelt];
  const namespace = metadata.shape.namespace.safeParse(place);
  if (!isObject(written) || !namespace.success || namespace.data === undefined) return {};
  return { namespace: namespace.data, ...(name.success && misspelt === undefined ? { name: name.data } : {}) };
}

/** The key of a document with errors elsewhere in its metadata; undefined when it cannot be determined. */
export function keyIn(kind: Kind, written: unknown): ResourceKey | undefined {
  const { name, namespace } = namesIn(written);
  if (name === undefined || namespace === undefined) return undefined;
  return resourceKey(kind, isClusterScoped(kind) ? '' : namespace, name);
}

export function isMisspeltNamespace(field: string, fields: Readonly<Record<string, unknown>>): boolean {
  return (fields.namespace ?? undefined) === undefined && (resembles(field, 'namespace') || field === 'ns');
}

/** Fields that the orchestrator puts into metadata and that a mesh does not read (Kubernetes ObjectMeta). */
const OTHER_METADATA: ReadonlySet<string> = new Set([
  'clusterName',
  'deletionGracePeriodSeconds',
  'finalizers',
  'generateName',
  'initializers',
  'managedFields',
  'ownerReferences',
  'resourceVersion',
  'selfLink',
  'uid',
]);

export function unknownMetadata(fields: Record<string, unknown>): ValidationError[] {
  return Object.keys(fields)
    .filter((field) => !Object.hasOwn(metadata.shape, field) && !OTHER_METADATA.has(field))
    .map((field) => ({ path: ['metadata', field], message: UNKNOWN_FIELD }));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
