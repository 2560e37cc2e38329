/**
 * An index of the scopes that are kept up to date, by their dependencies. It is immutable: the next state's index
 * shares the scopes that a change does not touch.
 */
import { PMap } from '../../core/pmap.ts';
import { GroupEdits, type Groups, membersOf } from '../common/groups.ts';
import { isWildcardHost } from '../common/hosts.ts';
import type { BuiltScope } from './scope-build.ts';
import { watchKeysOf } from './scope-plan.ts';

export interface ScopeIndex {
  readonly built: PMap<BuiltScope>;
  /** Key of hosts (`watchKeysOf`) → scope ids. */
  readonly watchers: Groups;
  /** Namespace → ids of its scopes. */
  readonly byNamespace: Groups;
  /** Key of a Sidecar → ids of the scopes made by it. */
  readonly bySidecar: Groups;
  /** Ids of acquired scopes whose Sidecars do not exist. */
  readonly absent: ReadonlySet<string>;
}

export const EMPTY_SCOPE_INDEX: ScopeIndex = {
  built: PMap.empty(),
  watchers: PMap.empty(),
  byNamespace: PMap.empty(),
  bySidecar: PMap.empty(),
  absent: new Set(),
};

/** The index with another scope; undefined for a scope that does not exist yet. */
export function withScope(scopeIndex: ScopeIndex, id: string, built: BuiltScope | undefined): ScopeIndex {
  return editIndex(scopeIndex, new Map([[id, built]]));
}

export function withoutScope(scopeIndex: ScopeIndex, id: string): ScopeIndex {
  const edited = editIndex(scopeIndex, new Map([[id, undefined]]));
  const absent = new Set(edited.absent);
  absent.delete(id);
  return { ...edited, absent };
}

/** The index with scopes added or replaced, or (undefined) recorded as absent. */
export function editIndex(scopeIndex: ScopeIndex, edits: ReadonlyMap<string, BuiltScope | undefined>): ScopeIndex {
  if (edits.size === 0) return scopeIndex;
  const watchers = new GroupEdits();
  const byNamespace = new GroupEdits();
  const bySidecar = new GroupEdits();
  for (const [id, after] of edits) {
    const before = scopeIndex.built.get(id);
    if (before?.watches !== after?.watches) watchers.move(id, before?.watches ?? [], after?.watches ?? []);
    byNamespace.move(id, namespaceOf(before), namespaceOf(after));
    bySidecar.move(id, sidecarOf(before), sidecarOf(after));
  }
  return {
    built: scopeIndex.built.with(edits),
    watchers: watchers.apply(scopeIndex.watchers),
    byNamespace: byNamespace.apply(scopeIndex.byNamespace),
    bySidecar: bySidecar.apply(scopeIndex.bySidecar),
    absent: absentAfter(scopeIndex.absent, edits),
  };
}

function absentAfter(
  absent: ReadonlySet<string>,
  edits: ReadonlyMap<string, BuiltScope | undefined>,
): ReadonlySet<string> {
  const next = new Set(absent);
  for (const [id, built] of edits) {
    if (built === undefined) next.add(id);
    else next.delete(id);
  }
  return next.size === 0 && absent.size === 0 ? absent : next;
}

function namespaceOf(built: BuiltScope | undefined): readonly string[] {
  return built === undefined ? [] : [built.scope.namespace];
}

function sidecarOf(built: BuiltScope | undefined): readonly string[] {
  return built?.scope.sidecar === undefined ? [] : [built.scope.sidecar];
}

/** Ids of the scopes that may depend on a host of a namespace. */
export function* scopesWatching(scopeIndex: ScopeIndex, owner: string, hostname: string): Generator<string> {
  // A wildcard may overlap with any pattern; there are few services and rules for wildcards.
  if (isWildcardHost(hostname)) yield* scopeIndex.built.keys();
  else for (const key of watchKeysOf(owner, hostname)) yield* membersOf(scopeIndex.watchers, key);
}
