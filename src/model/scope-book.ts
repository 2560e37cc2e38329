/**
 * The scopes that were built, findable by what they look at. A book is a value too: the next snapshot starts with the scopes
 * that its changes left alone.
 */
import { PMap } from '../core/pmap.ts';
import { GroupEdits, type Groups, membersOf } from './groups.ts';
import { isWildcardHost } from './hosts.ts';
import type { BuiltScope } from './scope-build.ts';
import { watchKeysOf } from './scope-plan.ts';

export interface ScopeBook {
  readonly built: PMap<BuiltScope>;
  /** Watch key → scope ids. */
  readonly watchers: Groups;
  /** Namespace → ids of its scopes. */
  readonly byNamespace: Groups;
  /** Key of a Sidecar → ids of the scopes made by it. */
  readonly bySidecar: Groups;
}

export const EMPTY_BOOK: ScopeBook = {
  built: PMap.empty(),
  watchers: PMap.empty(),
  byNamespace: PMap.empty(),
  bySidecar: PMap.empty(),
};

/** The book with scopes put in, replaced, or (undefined) taken out. */
export function editBook(book: ScopeBook, edits: ReadonlyMap<string, BuiltScope | undefined>): ScopeBook {
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
  };
}

function namespaceOf(built: BuiltScope | undefined): readonly string[] {
  return built === undefined ? [] : [built.scope.namespace];
}

function sidecarOf(built: BuiltScope | undefined): readonly string[] {
  return built?.scope.sidecar === undefined ? [] : [built.scope.sidecar];
}

/** Ids of the scopes that may have to do with a host of a namespace. */
export function* scopesWatching(book: ScopeBook, owner: string, hostname: string): Generator<string> {
  // A wildcard overlaps with any pattern; services and rules for wildcards are few.
  if (isWildcardHost(hostname)) yield* book.built.keys();
  else for (const key of watchKeysOf(owner, hostname)) yield* membersOf(book.watchers, key);
}
