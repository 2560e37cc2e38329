/**
 * The classes of documents, each of which waits separately, so that policies and the locations of workloads are read
 * soon, however many routes are written.
 */
import { CORE_KINDS, isSecurityKind } from '../../resources/index.ts';

/**
 * In the order of reading, if they have used the same time.
 *
 * - `security`: documents that protect workloads.
 * - `workloads`: where workloads run. Kubernetes writes these documents, and they become outdated quickly.
 * - `other`: everything else. Only in this class do namespaces have to wait.
 */
export const READING_CLASSES = ['security', 'workloads', 'other'] as const;

export type ReadingClass = (typeof READING_CLASSES)[number];

/** Where a document waits, and what its reading is charged to. */
export interface ReadingPlace {
  readonly namespace: string;
  readonly readingClass: ReadingClass;
}

/** Core kinds that users write. */
const WRITTEN: readonly unknown[] = ['ConfigMap', 'Secret'];

export function readingClassOf(kind: unknown): ReadingClass {
  if (isSecurityKind(kind)) return 'security';
  return CORE_KINDS.some((each) => each === kind) && !WRITTEN.includes(kind) ? 'workloads' : 'other';
}
