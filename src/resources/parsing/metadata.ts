/**
 * The parts of a document's metadata that the mesh reads (Kubernetes ObjectMeta), and the document that they identify.
 */
import { z } from 'zod';
import { isDnsLabel, isDnsSubdomain, MAX_DNS_LABEL, MAX_DNS_NAME } from '../../core/dns-names.ts';
import { isObject } from '../../core/objects.ts';
import { isClusterScoped } from '../kinds/aliases.ts';
import { type Kind, type ResourceKey, resourceKey } from '../kinds/types.ts';
import { UNKNOWN_FIELD, type ValidationError } from './issues.ts';
import { resembles } from './resembles.ts';
import type { SubstituteName } from './substitute.ts';

/** Namespace of a namespaced resource that names none. */
export const DEFAULT_NAMESPACE = 'default';

export const metadata = z.object({
  name: z
    .string()
    .max(MAX_DNS_NAME, { abort: true, error: 'expected at most 253 characters' })
    .refine(isDnsSubdomain, 'expected lower-case letters, digits, - and .'),
  namespace: z
    .string()
    .max(MAX_DNS_LABEL, { abort: true, error: 'expected at most 63 characters' })
    .refine(isDnsLabel, 'expected lower-case letters, digits and -')
    .optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  generation: z.int().min(0).optional(),
  creationTimestamp: z.iso.datetime({ offset: true, error: 'expected a time such as 2020-09-01T12:00:00Z' }).optional(),
  deletionTimestamp: z.iso.datetime({ offset: true, error: 'expected a time such as 2020-09-01T12:00:00Z' }).optional(),
});

/** Name and namespace as far as they can be read; no namespace if it cannot be determined. */
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

/** Fields of Kubernetes ObjectMeta that the mesh does not read. */
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
