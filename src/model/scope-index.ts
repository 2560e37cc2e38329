/**
 * The scopes that are kept up to date, findable by what they look at. A book is a value too: the next state starts with
 * the scopes that its changes left alone.
 */
import { PMap } from '../core/pmap.ts';
import { GroupEdits, type Groups, membersOf } from './groups.ts';
import { isWildcardHost } from './hosts.ts';
import type { BuiltScope } from './scope-build.ts';
import { watchKeysOf } from './scope-plan.ts';

export interface ScopeIndex {
  readonly built: PMap<BuiltScope>;
  /** Watch key → scope ids. */
  readonly watchers: Groups;
  /** Namespace → ids of its scopes. */
  readonly byNamespace: Groups;
  /** Key of a Sidecar → ids of the scopes made by it. */
  readonly bySidecar: Groups;
  /** Ids of scopes that are to be kept, whose Sidecars do not exist. */
  readonly absent: ReadonlySet<string>;
}

export const EMPTY_BOOK: ScopeIndex = {
  built: PMap.empty(),
  watchers: PMap.empty(),
  byNamespace: PMap.empty(),
  bySidecar: PMap.empty(),
  absent: new Set(),
};

/** The book with a scope that is kept from now on; undefined: it does not exist yet. */
export function withScope(book: ScopeIndex, id: string, built: BuiltScope | undefined): ScopeIndex {
  return editIndex(book, new Map([[id, built]]));
}

export function withoutScope(book: ScopeIndex, id: string): ScopeIndex {
  const edited = editIndex(book, new Map([[id, undefined]]));
  const absent = new Set(edited.absent);
  absent.delete(id);
  return { ...edited, absent };
}

/** The book with scopes put in or replaced, or (undefined) noted as absent. */
export function editIndex(book: ScopeIndex, edits: ReadonlyMap<string, BuiltScope | undefined>): ScopeIndex {
  if (edits.size === 0) return book;
  const watchers = new GroupEdits();
  const byNamespace = new GroupEdits();
  const bySidecar = new GroupEdits();
  for (const [id, after] of edits) {
    const before = book.built.get(id);
    if (before?.watches !== after?.watches) watchers.move(id, before?.watches ?? [], after?.watches ?? []);
    byNamespace.move(id, namespaceOf(before), namespaceOf(after));
    bySidecar.move(id, sidecarOf(before), sidecarOf(after));
  }
  return {
    built: book.built.with(edits),
    watchers: watchers.apply(book.watchers),
    byNamespace: byNamespace.apply(book.byNamespace),
    bySidecar: bySidecar.apply(book.bySidecar),
    absent: absentAfter(book.absent, edits),
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

/** Ids of the scopes that may have to do with a host of a namespace. */
export function* scopesWatching(book: ScopeIndex, owner: string, hostname: string): Generator<string> {
  // A wildcard overlaps with any pattern; services and rules for wildcards are few.
  if (isWildcardHost(hostname)) yield* book.built.keys();
  else for (const key of watchKeysOf(owner, hostname)) yield* membersOf(book.watchers, key);
}
