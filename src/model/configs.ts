/** Configuration that generation reads as it is: which of it differs in what is read. */
import type { AnyResource } from '../resources/index.ts';
import { deepEqual } from './equal.ts';
import type { Changed } from './tables.ts';
import type { ChangeSet } from './types.ts';

/** Of these resources, those that differ in what is read of them. */
export function changedConfigs(changed: readonly Changed[]): ChangeSet['configs'] {
  const differing = changed.filter(({ before, after }) => !deepEqual(readPart(before), readPart(after)));
  return new Map(differing.map(({ key, before, after }) => [key, { before, after }]));
}

/** Names are in the key; labels are read of namespaces alone, annotations of none. */
function readPart(resource: AnyResource | undefined): unknown {
  if (resource === undefined) return undefined;
  const { content, meta } = resource;
  return resource.kind === 'Namespace' ? { labels: meta.labels } : { content, created: meta.created };
}
