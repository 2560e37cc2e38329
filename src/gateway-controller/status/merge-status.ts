/**
 * Merges a desired status into that which an object has. Conditions of other types, and entries of other controllers
 * in the lists of routes and policies, stay as they are.
 */

import { isDeepStrictEqual } from 'node:util';
import { isObject } from '../../core/objects.ts';
import { apiFields, mergedConditions, type StatusRules } from '../../object-status/index.ts';
import { type DesiredStatus, recordsOf, type StatusFields } from '../types.ts';

/** Whether an entry of a list belongs to this controller, by the reference in it. */
export type IsOwn = (entry: Readonly<Record<string, unknown>>, reference: unknown) => boolean;

export interface MergeOptions {
  readonly isOwn: IsOwn;
  /** The transition time of changed conditions, RFC 3339 with seconds. */
  readonly time: string;
}

/** Lists in which each entry belongs to a controller, with the field that identifies an entry. */
const OWNED_LISTS: Readonly<Record<string, string>> = { parents: 'parentRef', ancestors: 'ancestorRef' };

type Entry = Readonly<Record<string, unknown>>;

/** Listeners belong to the Gateway's controller: those that are not desired are removed. */
function mergedListeners(current: unknown, desired: unknown, { time }: MergeOptions): Entry[] {
  const before = new Map(recordsOf(current).map((listener) => [listener.name, listener]));
  return recordsOf(desired).map((listener) => ({
    ...listener,
    conditions: mergedConditions(before.get(listener.name)?.conditions, listener.conditions, time, false),
  }));
}

/** Entries of other controllers keep their positions. */
function mergedEntries(current: unknown, desired: unknown, reference: string, options: MergeOptions): Entry[] {
  const { isOwn, time } = options;
  const wanted = [...recordsOf(desired)];
  const merge = (entry: Entry, before: Entry | undefined): Entry => ({
    ...entry,
    conditions: mergedConditions(before?.conditions, entry.conditions, time, false),
  });
  const kept = recordsOf(current).flatMap((entry) => {
    if (!isOwn(entry, entry[reference])) return [entry];
    const index = wanted.findIndex((each) => sameReference(each[reference], entry[reference]));
    const [found] = index < 0 ? [] : wanted.splice(index, 1);
    return found === undefined ? [] : [merge(found, entry)];
  });
  return [...kept, ...wanted.map((entry) => merge(entry, undefined))];
}

/** The API server sets the defaults of a reference. */
function sameReference(one: unknown, other: unknown): boolean {
  if (!isObject(one) || !isObject(other)) return false;
  const optional = (field: string) => isDeepStrictEqual(one[field], other[field]);
  const defaulted = ['group', 'kind'].every(
    (field) => one[field] === undefined || other[field] === undefined || one[field] === other[field],
  );
  return defaulted && ['namespace', 'name', 'sectionName', 'port'].every(optional);
}

/** The fields of the status that change, as a merge patch (RFC 7386); undefined when none does. */
export function statusPatch(
  current: StatusFields,
  desired: StatusFields,
  options: MergeOptions,
): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(desired)) {
    const merged = mergedField(field, current[field], value, options);
    if (!isDeepStrictEqual(merged, current[field])) patch[field] = merged;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

function mergedField(field: string, current: unknown, value: unknown, options: MergeOptions): unknown {
  const reference = OWNED_LISTS[field];
  if (reference !== undefined) return mergedEntries(current, value, reference, options);
  if (field === 'conditions') return mergedConditions(current, value, options.time, true);
  if (field === 'listeners') return mergedListeners(current, value, options);
  return value;
}

/** The patch that removes this controller's entries from routes and policies; undefined when there are none. */
export function clearedEntries(current: StatusFields, isOwn: IsOwn): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {};
  for (const [field, reference] of Object.entries(OWNED_LISTS)) {
    const entries = recordsOf(current[field]);
    const others = entries.filter((entry) => !isOwn(entry, entry[reference]));
    if (others.length < entries.length) patch[field] = others;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/**
 * The patch that restores the conditions that the API declares for a Gateway without a controller, and removes the
 * rest; undefined when another controller has written since.
 */
export function clearedGateway(
  current: StatusFields,
  written: StatusFields,
  time: string,
): Record<string, unknown> | undefined {
  const own = recordsOf(written.conditions);
  const now = recordsOf(current.conditions);
  const unchanged = own.every(({ type, status, reason }) =>
    now.some((condition) => condition.type === type && condition.status === status && condition.reason === reason),
  );
  if (!unchanged) return undefined;
  const types = new Set(own.map(({ type }) => type));
  const others = now.filter(({ type }) => !types.has(type));
  const missing = ['Accepted', 'Programmed'].filter((type) => !others.some((condition) => condition.type === type));
  const pending = missing.map((type) => ({
    type,
    status: 'Unknown',
    reason: 'Pending',
    message: 'Waiting for controller',
    lastTransitionTime: time,
  }));
  return { conditions: [...others, ...pending], addresses: null, listeners: null };
}

/**
 * The rules of the Gateway API.
 * @param isOfOtherRevision whether a Gateway, and what is written about it, belongs to another revision
 */
export function gatewayRules(
  controllerName: string,
  isOfOtherRevision: (namespace: string, name: string) => boolean,
): StatusRules {
  const ownIn =
    (objectNamespace: string): IsOwn =>
    (entry, reference) => {
      if (entry.controllerName !== controllerName) return false;
      const { namespace = objectNamespace, name } = isObject(reference) ? reference : {};
      return typeof namespace !== 'string' || typeof name !== 'string' || !isOfOtherRevision(namespace, name);
    };
  return {
    fieldsOf: gatewayFields,
    patch: ({ status, namespace }, desired, time) => statusPatch(status, desired, { isOwn: ownIn(namespace), time }),
    removal({ type, status, namespace, name }, written, time) {
      const entries = clearedEntries(status, ownIn(namespace));
      if (entries !== undefined || written === undefined || type.kind !== 'Gateway') return entries;
      return isOfOtherRevision(namespace, name) ? undefined : clearedGateway(status, written, time);
    },
  };
}

/** A Gateway has all fields of its own: those that are left out are empty. */
function gatewayFields({ kind, status }: DesiredStatus): StatusFields {
  const fields = apiFields(status);
  return kind === 'KubernetesGateway' ? { addresses: [], listeners: [], ...fields } : fields;
}
