/** The patches of a view, read of the mesh and decoded once for each version of an EnvoyFilter. */
import { fromProtoJson } from '../../protobuf/index.ts';
import { PATCHED_MESSAGES, type Resource, type ResourceKey, unappliedPatch } from '../../resources/index.ts';
import { type Facts, type MeshReader, noteAll, recorded } from '../reads/index.ts';
import type { AppliedFilter } from '../types.ts';
import { Patches } from './patches.ts';
import type { Patch } from './types.ts';

const NO_BYTES = new Uint8Array();

/** The patches, read at the first call. Each call records what was read: each is for another unit. */
export function patchesOf(snapshot: MeshReader, applied: readonly AppliedFilter[]): () => Patches {
  let read: { readonly value: Patches; readonly facts: Facts } | undefined;
  return () => {
    if (read === undefined) read = recorded(() => readPatches(snapshot, applied));
    else noteAll(read.facts);
    return read.value;
  };
}

function readPatches(snapshot: MeshReader, filters: readonly AppliedFilter[]): Patches {
  const resources = snapshot.resources('EnvoyFilter');
  const applied = filters.flatMap(({ key, patches: indexes }) => {
    const filter = resources.get(key);
    const all = filter === undefined ? [] : decoded(snapshot, key, filter);
    // A view may be older than the content of its filters while its proxies are moving to another one.
    return indexes.flatMap((index) => all[index] ?? []);
  });
  return new Patches(applied, snapshot.memos.enabled);
}

/** Undefined: a patch that is not applied, whose value was not checked. */
function decoded(
  snapshot: MeshReader,
  key: ResourceKey,
  filter: Resource<'EnvoyFilter'>,
): readonly (Patch | undefined)[] {
  return snapshot.memos
    .weak<Resource<'EnvoyFilter'>, readonly (Patch | undefined)[]>('decoded patches')
    .get(filter, () =>
      (filter.content.configPatches ?? []).map((patch, index) => {
        if (unappliedPatch(patch) !== undefined) return undefined;
        const { applyTo, match = {} } = patch;
        const { operation, value } = patch.patch;
        return {
          label: `${key}: spec.configPatches[${index}]`,
          applyTo,
          operation,
          match,
          name: typeof value?.name === 'string' ? value.name : '',
          value: value === undefined ? NO_BYTES : fromProtoJson(PATCHED_MESSAGES[applyTo], value),
        };
      }),
    );
}
