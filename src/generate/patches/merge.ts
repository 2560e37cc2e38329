/** Merges the values of patches. */
import { mergeMessages } from '../../protobuf/index.ts';
import type { Patch } from './types.ts';

export function isMerge({ operation }: Pick<Patch, 'operation'>): boolean {
  return operation === 'MERGE' || operation === 'MERGE_AND_REPLACE_LIST';
}

/** Merges the decoded value of a patch into `base`, according to the operation of the patch. */
export function mergeValue<M extends object>(
  message: string,
  base: M,
  value: M,
  { operation }: Pick<Patch, 'operation'>,
): M {
  return mergeMessages(message, base, value, operation === 'MERGE_AND_REPLACE_LIST' ? 'replace' : 'append');
}
