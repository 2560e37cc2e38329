/**
 * What documents wait together. Documents of one class never wait behind many of another: a policy, or where a workload
 * runs, is read soon, however many routes are written.
 */
import { CORE_KINDS, isSecurityKind } from '../../resources/index.ts';

/**
 * In the order in which they are read, where they have used the same time.
 *
 * - `security`: documents that protect workloads.
 * - `workloads`: what runs where. It is written by the orchestrator, and out of date at once.
 * - `other`: everything else. Only here do namespaces rest.
 */
export const READING_CLASSES = ['security', 'workloads', 'other'] as const;

export type ReadingClass = (typeof READING_CLASSES)[number];

/** Where a document waits, and what its reading is charged to. */
export interface ReadingPlace {
  readonly namespace: string;
  readonly readingClass: ReadingClass;
}

/** Core kinds that people write at will. */
const WRITTEN: readonly unknown[] = ['ConfigMap', 'Secret'];

export function readingClassOf(kind: unknown): ReadingClass {
  if (isSecurityKind(kind)) return 'security';
  return CORE_KINDS.some((each) => each === kind) && !WRITTEN.includes(kind) ? 'workloads' : 'other';
}
