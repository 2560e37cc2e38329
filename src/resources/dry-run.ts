/**
 * Dry runs: an AuthorizationPolicy with the annotation `mesh.io/dry-run: "true"` is evaluated, counted and logged, and
 * has no effect. Istio's `istio.io/dry-run` means the same (`aliases.ts`).
 */
import { isObject } from '../core/objects.ts';
import { meshKey } from './kinds/aliases.ts';
import { type Kind, MESH_KINDS } from './kinds/kinds.ts';
import type { ContentOf } from './kinds/schemas.ts';
import type { AnyResource, ResourceMeta } from './kinds/types.ts';
import { shown, type ValidationError } from './parsing/issues.ts';

const DRY_RUN = 'mesh.io/dry-run';

/** The spellings of Go's `strconv.ParseBool`, as in Istio. */
const VALUES: ReadonlyMap<string, boolean> = new Map([
  ...['1', 't', 'T', 'true', 'TRUE', 'True'].map((text) => [text, true] as const),
  ...['0', 'f', 'F', 'false', 'FALSE', 'False'].map((text) => [text, false] as const),
]);

/** Whether a policy has no effect. Validation has refused values that are neither true nor false. */
export function isDryRun({ meta }: Pick<AnyResource, 'meta'>): boolean {
  return VALUES.get(meta.annotations[DRY_RUN] ?? '') === true;
}

/**
 * What is wrong with the annotation of a document; undefined when nothing is. A policy with such an annotation is
 * refused, and fails closed. Stored documents of other kinds stay in force, because without a Sidecar, for example,
 * more would be allowed.
 * @param written the annotations as the document has them
 */
export function dryRunError(
  kind: Kind,
  { annotations }: ResourceMeta,
  content: unknown,
  written: unknown,
): ValidationError | undefined {
  const value = annotations[DRY_RUN];
  if (value === undefined || !(MESH_KINDS as readonly Kind[]).includes(kind)) return undefined;
  const path = ['metadata', 'annotations', writtenKey(written)];
  if (kind !== 'AuthorizationPolicy') {
    const message = 'expected only on an AuthorizationPolicy: documents of other kinds are always enforced';
    return { path, message, stored: 'in force' };
  }
  if (!VALUES.has(value)) return { path, message: `expected "true" or "false", got ${shown(value)}` };
  // The kind determines the type of the content.
  const { action } = content as ContentOf<'AuthorizationPolicy'>;
  return action === 'AUDIT'
    ? { path, message: 'expected action ALLOW, DENY or CUSTOM: AUDIT denies nothing' }
    : undefined;
}

/**
 * Whether a refused policy was meant to have no effect. `true` without quotes, which YAML does not read as a string,
 * cannot have meant anything else.
 */
export function meantAsDryRun(metadata: unknown): boolean {
  if (!isObject(metadata) || !isObject(metadata.annotations)) return false;
  const value = metadata.annotations[writtenKey(metadata.annotations)];
  return value === true || (typeof value === 'string' && VALUES.get(value) === true);
}

/** The key of the annotation that takes effect in a document. */
function writtenKey(annotations: unknown): string {
  if (!isObject(annotations) || Object.hasOwn(annotations, DRY_RUN)) return DRY_RUN;
  return Object.keys(annotations).find((key) => meshKey(key) === DRY_RUN) ?? DRY_RUN;
}
