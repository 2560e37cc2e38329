/**
 * Merges decoded messages as protobuf's `Merge` does: set fields replace, messages merge, lists are appended, entries
 * of maps are replaced. Two differences, because users of patches expect them: durations and wrappers (`BoolValue`) are
 * replaced as a whole, so that `false` replaces `true`; and two `Any` of one type merge their contents. Lists can be
 * replaced instead of appended. Source: https://protobuf.dev/programming-guides/encoding/#last-one-wins
 */

import protobuf from 'protobufjs';
import { CtlError, InternalError } from '../core/errors.ts';
import { findMessage, MAX_DEPTH, specialForm } from './descriptors.ts';
import { messageNameOf } from './type-urls.ts';

type Fields = Readonly<Record<string, unknown>>;

interface AnyFields {
  readonly typeUrl?: string | null;
  readonly value?: Uint8Array | null;
}

const REPLACED = new Set(['duration', 'timestamp', 'wrapper', 'value']);

/** Whether lists of the patch are appended or replace lists. */
type Lists = 'append' | 'replace';

/** `base` with `patch` merged into it. Both are decoded messages of the given full name, and are not changed. */
export function mergeMessages<M extends object>(messageName: string, base: M, patch: M, lists: Lists = 'append'): M {
  const type = findMessage(messageName);
  if (type === undefined) throw new InternalError(`message ${messageName} is not compiled`);
  return mergeFields(type, base as Fields, patch as Fields, { lists, depth: 0 }) as M;
}

interface Way {
  readonly lists: Lists;
  /** The number of enclosing messages. */
  readonly depth: number;
}

function mergeFields(type: protobuf.Type, base: Fields, patch: Fields, way: Way): Fields {
  if (way.depth > MAX_DEPTH) throw new CtlError('invalid_argument', 'messages to merge are nested too deep');
  const merged: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(patch)) {
    const field = type.fields[name];
    if (field === undefined || value === null || value === undefined) continue;
    for (const rival of field.partOf?.oneof ?? []) if (rival !== name) delete merged[rival];
    merged[name] = mergeField(field, merged[name], value, way);
  }
  return merged;
}

function mergeField(field: protobuf.Field, base: unknown, patch: unknown, way: Way): unknown {
  if (field.repeated) {
    const [before, added] = [(base ?? []) as readonly unknown[], patch as readonly unknown[]];
    // A decoded message has an empty list for each list that is not set.
    return way.lists === 'replace' && added.length > 0 ? added : [...before, ...added];
  }
  if (field.map) return { ...(base as object | undefined), ...(patch as object) };
  const { resolvedType } = field;
  if (!(resolvedType instanceof protobuf.Type) || base === null || base === undefined) return patch;
  const form = specialForm(resolvedType);
  if (form === 'any') return mergeAny(base as AnyFields, patch as AnyFields, way);
  if (form !== undefined && REPLACED.has(form)) return patch;
  return mergeFields(resolvedType, base as Fields, patch as Fields, { ...way, depth: way.depth + 1 });
}

function mergeAny(base: AnyFields, patch: AnyFields, way: Way): AnyFields {
  const type = findMessage(messageNameOf(base.typeUrl ?? ''));
  if (type === undefined || base.typeUrl !== patch.typeUrl) return patch;
  const [before, change] = [base, patch].map(
    ({ value }) => type.decode(value ?? new Uint8Array()) as unknown as Fields,
  );
  const merged = mergeFields(type, before ?? {}, change ?? {}, { ...way, depth: way.depth + 1 });
  return { ...base, value: type.encode(merged).finish() };
}
