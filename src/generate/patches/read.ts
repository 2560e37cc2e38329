/** The patches of a view, read from the mesh and decoded once for each version of an EnvoyFilter. */
import { deserialize } from 'node:v8';
import type { Memos } from '../../core/memo.ts';
import { fromProtoJson } from '../../protobuf/index.ts';
import { PATCHED_MESSAGES, type Resource, type ResourceKey, unappliedPatch } from '../../resources/index.ts';
import { type Facts, type MeshReader, noteAll, recorded } from '../reads/index.ts';
import type { FormerFilter } from '../types.ts';
import { Patches } from './patches.ts';
import type { Patch } from './types.ts';

const NO_BYTES = new Uint8Array();

type Content = Resource<'EnvoyFilter'>['content'];

/** The patches, read at the first call. Each call records the reads, because each is for another unit. */
export function patchesOf(snapshot: MeshReader, applied: readonly FormerFilter[]): () => Patches {
  let read: { readonly value: Patches; readonly facts: Facts } | undefined;
  return () => {
    if (read === undefined) read = recorded(() => readPatches(snapshot, applied));
    else noteAll(read.facts);
    return read.value;
  };
}

function readPatches(snapshot: MeshReader, filters: readonly FormerFilter[]): Patches {
  const resources = snapshot.resources('EnvoyFilter');
  const applied = filters.flatMap((filter) => {
    const { key, content, patches: indexes } = filter;
    const all =
      content === undefined ? current(snapshot, key, resources.get(key)) : former(snapshot, filter, key, content);
    // A view may be older than the content of its filters while its proxies are moving to another view.
    return indexes.flatMap((index) => all[index] ?? []);
  });
  return sharedPatches(applied, snapshot.memos);
}

/**
 * Maximum number of lists with the same first patch that are remembered: an EnvoyFilter applies to few kinds of views.
 */
const MAX_SHARED = 16;

/** The same object for equal lists of patches, so that each list is indexed once and results can be cached by it. */
function sharedPatches(applied: readonly Patch[], memos: Memos): Patches {
  const [first] = applied;
  if (first === undefined) return new Patches(applied, memos.enabled);
  const lists = memos.weak<Patch, { of: readonly (readonly [readonly Patch[], Patches])[] }>('patches by list');
  const known = lists.get(first, () => ({ of: [] }));
  const found = known.of.find(
    ([list]) => list.length === applied.length && list.every((each, i) => each === applied[i]),
  );
  if (found !== undefined) return found[1];
  const made = new Patches(applied, memos.enabled);
  known.of = [[applied, made] as const, ...known.of].slice(0, MAX_SHARED);
  return made;
}

/** Undefined: a patch that is not applied, whose value was not checked. */
type Decoded = readonly (Patch | undefined)[];

function current(snapshot: MeshReader, key: ResourceKey, filter: Resource<'EnvoyFilter'> | undefined): Decoded {
  if (filter === undefined) return [];
  const memo = snapshot.memos.weak<Resource<'EnvoyFilter'>, Decoded>('decoded patches');
  return memo.get(filter, () => decoded(key, filter.content));
}

/** The decoded patches of a former version, while the job has it. */
function former(snapshot: MeshReader, filter: FormerFilter, key: ResourceKey, content: Uint8Array): Decoded {
  const memo = snapshot.memos.weak<FormerFilter, Decoded>('decoded former patches');
  return memo.get(filter, () => decoded(key, deserialize(content) as Content));
}

function decoded(key: ResourceKey, { configPatches = [] }: Content): Decoded {
  return configPatches.map((patch, index) => {
    if (unappliedPatch(patch) !== undefined) return undefined;
    const { applyTo, match = {} } = patch;
    const { operation, value, filterClass } = patch.patch;
    return {
      label: `${key}: spec.configPatches[${index}]`,
      applyTo,
      operation,
      match,
      ...(filterClass !== undefined && filterClass !== 'UNSPECIFIED' && { filterClass }),
      name: typeof value?.name === 'string' ? value.name : '',
      value: value === undefined ? NO_BYTES : fromProtoJson(PATCHED_MESSAGES[applyTo], value),
    };
  });
}
