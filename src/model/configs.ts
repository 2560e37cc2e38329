/** Configuration that generation reads directly: which of it differs in what generation reads. */
import type { AnyResource } from '../resources/index.ts';
import { deepEqual } from './equal.ts';
import type { Changed } from './tables.ts';
import type { ChangeSet } from './types.ts';

/** The resources that differ in what generation reads. */
export function changedConfigs(changed: readonly Changed[]): ChangeSet['configs'] {
  const differing = changed.filter(({ before, after }) => !deepEqual(readPart(before), readPart(after)));
  return new Map(differing.map(({ key, before, after }) => [key, { before, after }]));
}

/** Names are in the key; labels are read for namespaces only, annotations never. */
function readPart(resource: AnyResource | undefined): unknown {
  if (resource === undefined) return undefined;
  const { content, meta } = resource;
  return resource.kind === 'Namespace' ? { labels: meta.labels } : { content, created: meta.created };
}
