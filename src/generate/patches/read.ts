/** The patches of a view, read of the mesh and decoded once for each version of an EnvoyFilter. */
import { fromProtoJson } from '../../protobuf/index.ts';
import {
  type EnvoyConfigPatch,
  PATCHED_MESSAGES,
  type Resource,
  type ResourceKey,
  unappliedPatch,
} from '../../resources/index.ts';
import { type Facts, type MeshReader, noteAll, recorded } from '../reads/index.ts';
import type { AppliedFilter } from '../types.ts';
import type { Patch, PatchLookup } from './types.ts';

type ApplyTo = EnvoyConfigPatch['applyTo'];

interface TargetedPatch extends Patch {
  readonly applyTo: ApplyTo;
}

const NO_BYTES = new Uint8Array();

/** Patches by their target, read at the first call. Each call records what was read: each is for another unit. */
export function patchesOf(snapshot: MeshReader, applied: readonly AppliedFilter[]): () => PatchLookup {
  let read: { readonly value: PatchLookup; readonly facts: Facts } | undefined;
  return () => {
    if (read === undefined) read = recorded(() => readPatches(snapshot, applied));
    else noteAll(read.facts);
    return read.value;
  };
}

function readPatches(snapshot: MeshReader, filters: readonly AppliedFilter[]): PatchLookup {
  const resources = snapshot.resources('EnvoyFilter');
  const applied = filters.flatMap(({ key, patches: indexes }) => {
    const filter = resources.get(key);
    const all = filter === undefined ? [] : decoded(snapshot, key, filter);
    // A view may be older than the content of its filters while its proxies are moving to another one.
    return indexes.flatMap((index) => all[index] ?? []);
  });
  const byTarget = Map.groupBy(applied, ({ applyTo }) => applyTo);
  return (applyTo) => byTarget.get(applyTo) ?? [];
}

/** Undefined: a patch that is not applied, whose value was not checked. */
function decoded(
  snapshot: MeshReader,
  key: ResourceKey,
  filter: Resource<'EnvoyFilter'>,
): readonly (TargetedPatch | undefined)[] {
  return snapshot.memos
    .weak<Resource<'EnvoyFilter'>, readonly (TargetedPatch | undefined)[]>('decoded patches')
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
