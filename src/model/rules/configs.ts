/** Configuration that generation reads directly: finds changes of the parts that generation reads. */
import { type AnyResource, isDryRun, type ResourceChange, sidecarConfigurationOf } from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import type { ChangeSet } from '../types/types.ts';

/** The resources with changes of the parts that generation reads. */
export function changedConfigs(changed: readonly ResourceChange[]): ChangeSet['configs'] {
  const differing = changed.filter(({ before, after }) => !deepEqual(readPart(before), readPart(after)));
  return new Map(differing.map(({ key, before, after }) => [key, { before, after }]));
}

/** Names are in the key; labels are only read for namespaces, and only some annotations are read. */
function readPart(resource: AnyResource | undefined): unknown {
  if (resource === undefined) return undefined;
  const { content, meta } = resource;
  switch (resource.kind) {
    case 'Namespace':
      return { labels: meta.labels, sidecars: sidecarConfigurationOf(meta) };
    case 'AuthorizationPolicy':
      return { content, created: meta.created, dryRun: isDryRun(resource) };
    default:
      return { content, created: meta.created };
  }
}
