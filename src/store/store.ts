/**
 * Typed collections of everything the sources have told, each resource in its last good version, and what of it has changed
 * since the last snapshot. Events come in any order from any number of sources; only their last state per key counts.
 */
import { isClusterScoped } from '../resources/index.ts';
import {
  type AnyResource,
  type Kind,
  keyOf,
  type Resource,
  type ResourceChange,
  type ResourceEvent,
  type ResourceKey,
  type ResourceProblem,
} from '../resources/types.ts';

export interface StoreOptions {
  /** `--appNamespace`: namespaces whose resources are kept; empty keeps all. Cluster-scoped kinds are always kept. */
  readonly appNamespaces: readonly string[];
  /** Kept whatever `appNamespaces` says, because mesh-wide resources live there. */
  readonly rootNamespace: string;
  /** Called once for every new or changed problem, and with `undefined` when one is gone. */
  readonly onProblem: (id: string, problem: ResourceProblem | undefined) => void;
  /** Called for every version of a resource whose warnings differ from those of the version before, if it has any. */
  readonly onWarnings?: (key: ResourceKey, resource: AnyResource) => void;
}

/** What came of a batch of events. */
export interface AppliedSummary {
  /** Keys whose state now differs from before the batch, with no-ops dropped. */
  readonly changed: ReadonlySet<ResourceKey>;
  /** Events that said nothing new, or concern namespaces that are not kept. */
  readonly ignored: number;
  /** Problems reported in the batch that were not known word for word. */
  readonly newProblems: number;
}

/** What {@link Store.take} hands to the next snapshot. */
export interface TakenChanges {
  readonly changes: readonly ResourceChange[];
  /** `at` of the earliest event behind the changes; `undefined` when there are none. Convergence is counted from here. */
  readonly firstEventAt: number | undefined;
}

export interface Store {
  apply(events: readonly ResourceEvent[]): AppliedSummary;
  /** Removes and returns pending changes (all, or those whose key passes), in key order. */
  take(filter?: (key: ResourceKey) => boolean): TakenChanges;
  /** Whether a `take()` would return anything. */
  hasPending(): boolean;
  all<K extends Kind>(kind: K): readonly Resource<K>[];
  get(key: ResourceKey): AnyResource | undefined;
  /** Kinds that have resources, with their number. */
  counts(): ReadonlyMap<Kind, number>;
  problems(): readonly ResourceProblem[];
}

/** A key's state when it first changed since the last take. */
interface Pending {
  readonly before: AnyResource | undefined;
  readonly firstAt: number;
}

export function createStore(options: StoreOptions): Store {
  const kept =
    options.appNamespaces.length === 0 ? undefined : new Set([...options.appNamespaces, options.rootNamespace]);
  const byKind = new Map<Kind, Map<ResourceKey, AnyResource>>();
  const problems = new Map<string, ResourceProblem>();
  const pending = new Map<ResourceKey, Pending>();

  const get = (key: ResourceKey): AnyResource | undefined => byKind.get(kindOfKey(key))?.get(key);
  const isKept = (key: ResourceKey): boolean => {
    if (kept === undefined || isClusterScoped(kindOfKey(key))) return true;
    return kept.has(key.split('/')[1] ?? '');
  };

  /** @returns whether the state of `key` changed */
  const put = (key: ResourceKey, after: AnyResource | undefined, at: number): boolean => {
    const before = get(key);
    if (before?.fingerprint === after?.fingerprint) {
      // The same content from another place: messages should name the place it is in now.
      if (after !== undefined) write(byKind, key, after);
      return false;
    }
    write(byKind, key, after);
    const first = pending.get(key);
    if (first === undefined) pending.set(key, { before, firstAt: at });
    else if (first.before?.fingerprint === after?.fingerprint) pending.delete(key);
    else if (at < first.firstAt) pending.set(key, { ...first, firstAt: at });
    return true;
  };

  const clearProblem = (id: string): void => {
    if (problems.delete(id)) options.onProblem(id, undefined);
  };

  /** @returns whether the problem says something new */
  const noteProblem = (problem: ResourceProblem): boolean => {
    if (sameProblem(problems.get(problem.id), problem)) return false;
    problems.set(problem.id, problem);
    options.onProblem(problem.id, problem);
    return true;
  };

  const noteWarnings = (key: ResourceKey, before: AnyResource | undefined, after: AnyResource): void => {
    if (after.warnings === undefined) return;
    if (JSON.stringify(before?.warnings) !== JSON.stringify(after.warnings)) options.onWarnings?.(key, after);
  };

  return {
    apply(events) {
      const start = new Map<ResourceKey, AnyResource | undefined>();
      let ignored = 0;
      let newProblems = 0;
      for (const event of events) {
        if (event.type === 'invalid') {
          const concerned = event.problem.key === undefined || isKept(event.problem.key);
          if (concerned && noteProblem(event.problem)) newProblems++;
          else ignored++;
          continue;
        }
        if (event.type === 'resolved') {
          clearProblem(event.id);
          continue;
        }
        const key = event.type === 'set' ? keyOf(event.resource) : event.key;
        if (!isKept(key)) {
          ignored++;
          continue;
        }
        if (event.keepsProblem !== true) clearProblem(key);
        const before = get(key);
        if (event.type === 'set') noteWarnings(key, before, event.resource);
        if (put(key, event.type === 'set' ? event.resource : undefined, event.at)) {
          if (!start.has(key)) start.set(key, before);
        } else ignored++;
      }
      const changed = new Set<ResourceKey>();
      for (const [key, before] of start) if (before?.fingerprint !== get(key)?.fingerprint) changed.add(key);
      return { changed, ignored, newProblems };
    },
    take(filter) {
      const keys = [...pending.keys()].filter((key) => filter === undefined || filter(key)).sort();
      let firstEventAt: number | undefined;
      const changes = keys.map((key): ResourceChange => {
        const first = pending.get(key);
        pending.delete(key);
        if (first !== undefined) firstEventAt = Math.min(first.firstAt, firstEventAt ?? first.firstAt);
        return { key, before: first?.before, after: get(key) };
      });
      return { changes, firstEventAt };
    },
    hasPending: () => pending.size > 0,
    all: <K extends Kind>(kind: K): readonly Resource<K>[] =>
      // The collection of a kind holds that kind alone: `write` files by the key's kind.
      [...(byKind.get(kind)?.values() ?? [])] as unknown as readonly Resource<K>[],
    get,
    counts: () => new Map([...byKind].filter(([, items]) => items.size > 0).map(([kind, items]) => [kind, items.size])),
    problems: () => [...problems.values()],
  };
}

function kindOfKey(key: ResourceKey): Kind {
  // Keys are made by `resourceKey` alone, whose first part is a kind.
  return key.slice(0, key.indexOf('/')) as Kind;
}

function write(
  byKind: Map<Kind, Map<ResourceKey, AnyResource>>,
  key: ResourceKey,
  resource: AnyResource | undefined,
): void {
  const kind = kindOfKey(key);
  const items = byKind.get(kind) ?? new Map<ResourceKey, AnyResource>();
  byKind.set(kind, items);
  if (resource === undefined) items.delete(key);
  else items.set(key, resource);
}

function sameProblem(a: ResourceProblem | undefined, b: ResourceProblem): boolean {
  return (
    a !== undefined &&
    a.message === b.message &&
    a.field === b.field &&
    a.origin.file === b.origin.file &&
    a.origin.line === b.origin.line
  );
}
