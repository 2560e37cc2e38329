/** Configuration that generation reads directly: which of it differs in what generation reads. */
import { type AnyResource, isDryRun, type ResourceChange } from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import type { ChangeSet } from '../types/types.ts';

/** The resources that differ in what generation reads. */
export function changedConfigs(changed: readonly ResourceChange[]): ChangeSet['configs'] {
  const differing = changed.filter(({ before, after }) => !deepEqual(readPart(before), readPart(after)));
  return new Map(differing.map(({ key, before, after }) => [key, { before, after }]));
}

/** Names are in the key; labels are read for namespaces only, of annotations the one about dry runs. */
function readPart(resource: AnyResource | undefined): unknown {
  if (resource === undefined) return undefined;
  const { content, meta } = resource;
  switch (resource.kind) {
    case 'Namespace':
      return { labels: meta.labels };
    case 'AuthorizationPolicy':
      return { content, created: meta.created, dryRun: isDryRun(resource) };
    default:
      return { content, created: meta.created };
  }
}
