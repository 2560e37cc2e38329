/** Tables of resources by kind, and how a change updates them. */
import { PMap } from '../../core/pmap.ts';
import type { AnyResource, Kind, Resource, ResourceChange, ResourceKey } from '../../resources/index.ts';

export type ResourceTables<K extends Kind = Kind> = Readonly<Record<K, PMap<AnyResource>>>;

export function emptyTables<K extends Kind>(kinds: readonly K[]): ResourceTables<K> {
  return Object.fromEntries(kinds.map((kind) => [kind, PMap.empty<AnyResource>()])) as Record<K, PMap<AnyResource>>;
}

/** The table of a kind: the only place that relates a kind's name to its type. */
export function tableOf<K extends Kind>(tables: ResourceTables<K>, kind: K): PMap<Resource<K>> {
  return tables[kind] as unknown as PMap<Resource<K>>;
}

/** The resource of a change if it is of this kind. */
export function ofKind<K extends Kind>(resource: AnyResource | undefined, kind: K): Resource<K> | undefined {
  return resource?.kind === kind ? (resource as unknown as Resource<K>) : undefined;
}

export function kindOfKey(key: ResourceKey): string {
  return key.slice(0, key.indexOf('/'));
}

/** Puts resources into their tables; returns those whose fingerprints differ. */
export function storeResources<K extends Kind>(
  tables: ResourceTables<K>,
  changes: Iterable<readonly [ResourceKey, AnyResource | undefined]>,
): { readonly tables: ResourceTables<K>; readonly changed: readonly ResourceChange[] } {
  const changed: ResourceChange[] = [];
  const edits = new Map<K, [ResourceKey, AnyResource | undefined][]>();
  for (const [key, after] of changes) {
    const kind = after?.kind ?? kindOfKey(key);
    if (!isTabled(tables, kind)) continue;
    const before = tables[kind].get(key);
    if (before === undefined && after === undefined) continue;
    const list = edits.get(kind);
    if (list === undefined) edits.set(kind, [[key, after]]);
    else list.push([key, after]);
    if (before?.fingerprint !== after?.fingerprint) changed.push({ key, before, after });
  }
  const stored: Record<K, PMap<AnyResource>> = { ...tables };
  for (const [kind, list] of edits) stored[kind] = stored[kind].with(list);
  return { tables: stored, changed };
}

function isTabled<K extends Kind>(tables: ResourceTables<K>, kind: string): kind is K {
  return Object.hasOwn(tables, kind);
}
