/** The patches of a view, read of the mesh and decoded once for each version of an EnvoyFilter. */
import { fromProtoJson } from '../../protobuf/index.ts';
import { type EnvoyConfigPatch, PATCHED_MESSAGES, type Resource, type ResourceKey } from '../../resources/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { View } from '../types.ts';
import type { Patch, PatchLookup } from './types.ts';

type ApplyTo = EnvoyConfigPatch['applyTo'];

interface TargetedPatch extends Patch {
  readonly applyTo: ApplyTo;
}

const NO_BYTES = new Uint8Array();

/** The patches of a view, by their target. */
export function patchesOf(snapshot: MeshReader, { patches = [] }: View): PatchLookup {
  const filters = snapshot.resources('EnvoyFilter');
  const applied = patches.flatMap(({ key, patches: indexes }) => {
    const filter = filters.get(key);
    const all = filter === undefined ? [] : decoded(snapshot, key, filter);
    // A view may be older than the content of its filters while its proxies are moving to another one.
    return indexes.flatMap((index) => all[index] ?? []);
  });
  const byTarget = Map.groupBy(applied, ({ applyTo }) => applyTo);
  return (applyTo) => byTarget.get(applyTo) ?? [];
}

function decoded(
  snapshot: MeshReader,
  key: ResourceKey,
  filter: Resource<'EnvoyFilter'>,
): readonly (TargetedPatch | undefined)[] {
  return snapshot.memos
    .weak<Resource<'EnvoyFilter'>, readonly (TargetedPatch | undefined)[]>('decoded patches')
    .get(filter, () =>
      (filter.content.configPatches ?? []).map(({ applyTo, match = {}, patch: { operation, value } }, index) => ({
        label: `${key}: spec.configPatches[${index}]`,
        applyTo,
        operation,
        match,
        value: value === undefined ? NO_BYTES : fromProtoJson(PATCHED_MESSAGES[applyTo], value),
      })),
    );
}
