/** Merges conditions into those that an object has (Kubernetes API conventions, "Typical status properties"). */
import { recordsOf, type StatusFields } from './types.ts';

type Entry = Readonly<Record<string, unknown>>;

/**
 * The conditions with times: a condition whose status is as before keeps its time.
 * @param time RFC 3339 with seconds @param keepOthers whether conditions of other types stay
 */
export function mergedConditions(current: unknown, desired: unknown, time: string, keepOthers: boolean): Entry[] {
  const before = new Map(recordsOf(current).map((condition) => [condition.type, condition]));
  const written = new Map(
    recordsOf(desired).map((condition) => {
      const { status, lastTransitionTime } = before.get(condition.type) ?? {};
      const kept = status === condition.status && typeof lastTransitionTime === 'string' ? lastTransitionTime : time;
      return [condition.type, { ...condition, lastTransitionTime: kept }];
    }),
  );
  // In their current order: an order of this controller's own would be rewritten each time that another controller
  // writes.
  const first = [...before].flatMap(([type, condition]) => {
    const own = written.get(type);
    if (own !== undefined) return [own];
    return keepOthers ? [condition] : [];
  });
  return [...first, ...[...written].filter(([type]) => !before.has(type)).map(([, condition]) => condition)];
}

/** The form of the API, in which undefined fields do not exist. */
export function apiFields(status: object): StatusFields {
  return JSON.parse(JSON.stringify(status)) as StatusFields;
}
