/** How statuses of mesh resources are merged into those that objects have. */
import { isDeepStrictEqual } from 'node:util';
import { apiFields, mergedConditions, recordsOf, type StatusRules } from '../object-status/index.ts';

/**
 * Conditions of other types, and other fields, belong to others and stay as they are. `validationMessages` is written
 * as a whole: an empty list removes it. What was written about an object stays when it is no longer known what is to
 * be written.
 */
export const MESH_RULES: StatusRules = {
  fieldsOf: ({ status }) => apiFields(status),
  patch({ status }, desired, time) {
    const patch: Record<string, unknown> = {};
    if (desired.conditions !== undefined) {
      const merged = mergedConditions(status.conditions, desired.conditions, time, true);
      if (!isDeepStrictEqual(merged, status.conditions)) patch.conditions = merged;
    }
    const { validationMessages: messages } = desired;
    if (messages !== undefined) {
      const isEmpty = recordsOf(messages).length === 0;
      const current = status.validationMessages ?? [];
      if (!isDeepStrictEqual(current, messages)) patch.validationMessages = isEmpty ? null : messages;
    }
    return Object.keys(patch).length === 0 ? undefined : patch;
  },
  removal: () => undefined,
};
