/**
 * Refused documents of the security kinds, and what is in force in their place. While the program runs, sources leave
 * the last good version of a document in force. After a restart there is none in memory: it is taken from the state
 * directory, and where there is none either, the strictest that the document can have meant holds
 * (`resources/substitute.ts`).
 *
 * events of a source ──▶ admit ──▶ the same events, with `hold`s and `release`s of what holds in place of refused
 * documents ──▶ store
 *
 * Each source is looked at by itself: what holds is a document of the source whose document is refused, and gives way
 * to those of sources before it alone. So a good document of a later source does not take the place of a refused one,
 * which may have been stricter.
 */
import {
  type AnyResource,
  isSecurityKind,
  keyOf,
  type ResourceEvent,
  type ResourceKey,
  type ResourceProblem,
  resourceKey,
  type Substitute,
  substituteResource,
} from '../resources/index.ts';
import type { LastGood, SourceLastGood } from './last-good.ts';

/** What is in force in the place of a refused document. */
export type InForce = 'last_good' | 'substitute';

/** A refused document of a security kind. */
export interface HeldDocument {
  readonly problem: ResourceProblem;
  /** Keys of what is in force instead. */
  readonly keys: readonly ResourceKey[];
  readonly inForce: InForce;
}

/**
 * An event of a source, or what follows from it: a resource holds in the place of a refused document, or does so no
 * longer.
 */
export type AdmittedEvent =
  | ResourceEvent
  | { readonly type: 'hold'; readonly resource: AnyResource; readonly eventTime: number }
  | { readonly type: 'release'; readonly key: ResourceKey; readonly eventTime: number };

export interface SecurityHoldOptions {
  readonly lastGood: LastGood;
  readonly rootNamespace: string;
}

/** The refused documents of all sources. */
export class SecurityHold {
  readonly #options: SecurityHoldOptions;
  readonly #sources = new Map<string, SourceHold>();
  #synced = false;

  constructor(options: SecurityHoldOptions) {
    this.#options = options;
  }

  /** The events of a source, for the store. */
  admit(source: string, events: readonly ResourceEvent[]): AdmittedEvent[] {
    let hold = this.#sources.get(source);
    if (hold === undefined) {
      const { lastGood, rootNamespace } = this.#options;
      hold = new SourceHold({ lastGood: lastGood.of(source), rootNamespace, synced: () => this.#synced });
      this.#sources.set(source, hold);
    }
    return hold.admit(events);
  }

  /** All sources have been read once: versions of documents that are in none of them any more are forgotten. */
  synced(): void {
    this.#synced = true;
    this.#options.lastGood.retain(new Map([...this.#sources].map(([source, hold]) => [source, hold.keys()])));
  }

  /** The source is no more, and all that it gave was taken back. */
  remove(source: string): void {
    this.#sources.delete(source);
  }

  /** Refused documents of the security kinds, in order of their identities. */
  all(): readonly HeldDocument[] {
    const held = [...this.#sources.values()].flatMap((hold) => [...hold.held.values()]);
    return held.sort((a, b) => (a.problem.id < b.problem.id ? -1 : 1));
  }

  /** The refused document that a source's problem is about. */
  of(source: string, problemId: string): HeldDocument | undefined {
    return this.#sources.get(source)?.held.get(problemId);
  }
}

interface SourceHoldOptions {
  readonly lastGood: SourceLastGood;
  readonly rootNamespace: string;
  /** Whether all sources have been read once. */
  readonly synced: () => boolean;
}

/** The refused documents of one source. */
class SourceHold {
  readonly #options: SourceHoldOptions;
  /** By the problem's id. */
  readonly held = new Map<string, HeldDocument>();
  /** What this class has put in force: key → problems because of which. */
  readonly #placed = new Map<ResourceKey, Set<string>>();
  /** Security documents that the source has in force. */
  readonly #given = new Set<ResourceKey>();

  constructor(options: SourceHoldOptions) {
    this.#options = options;
  }

  admit(events: readonly ResourceEvent[]): AdmittedEvent[] {
    return events.flatMap((event) => [event, ...this.#consequences(event)]);
  }

  /** Keys of what is in force. */
  keys(): ResourceKey[] {
    return [...this.#given, ...this.#placed.keys()];
  }

  #consequences(event: ResourceEvent): AdmittedEvent[] {
    switch (event.type) {
      case 'set':
        this.#noteGood(event.resource);
        return this.#release(keyOf(event.resource), new Set(), event.eventTime);
      case 'delete':
        this.#forget(event.key);
        return this.#release(event.key, new Set(), event.eventTime);
      case 'resolved':
        return this.#release(event.id, new Set(), event.eventTime);
      case 'invalid':
        return this.#hold(event.problem, event.eventTime);
    }
  }

  #noteGood(resource: AnyResource): void {
    if (!isSecurityKind(resource.kind)) return;
    const key = keyOf(resource);
    this.#placed.delete(key);
    this.#given.add(key);
    this.#options.lastGood.save(resource);
  }

  #forget(key: ResourceKey): void {
    const isKnown = [this.#placed.delete(key), this.#given.delete(key)].includes(true);
    if (isKnown) this.#options.lastGood.forget(key);
  }

  /** Sees to it that something is in force in the place of a refused document. */
  #hold(problem: ResourceProblem, eventTime: number): AdmittedEvent[] {
    const { rootNamespace } = this.#options;
    const { id, substitutes = [] } = problem;
    // A document of another kind. One that cannot be told may be any policy that its file had, also where nothing in it
    // looks like one.
    if (problem.substitutes === undefined && problem.key !== undefined) return this.#release(id, new Set(), eventTime);
    const key = problem.key ?? keyOfSubstitute(substitutes);
    const restored = key === undefined ? this.#lostOf(problem) : this.#lost(key);
    const wanted = new Map(restored.map((resource) => [keyOf(resource), resource]));
    const kept = (key === undefined ? (problem.kept ?? []) : [key]).filter((each) => this.#given.has(each));
    const known = [...kept, ...wanted.keys()];
    let inForce: InForce = 'last_good';
    for (const substitute of substitutes) {
      if (known.some((each) => mayBe(substitute, each))) continue;
      const resource = substituteResource(substitute, { rootNamespace, id, origin: problem.origin });
      inForce = 'substitute';
      // A good document of another file may have the name.
      if (!this.#given.has(keyOf(resource))) wanted.set(keyOf(resource), resource);
    }
    const keys = [...new Set([...known, ...wanted.keys()])];
    const released = this.#release(id, new Set(wanted.keys()), eventTime);
    if (keys.length === 0) return released;
    this.held.set(id, { problem, keys, inForce });
    return [...released, ...[...wanted].flatMap(([each, resource]) => this.#place(id, each, resource, eventTime))];
  }

  #place(id: string, key: ResourceKey, resource: AnyResource, eventTime: number): AdmittedEvent[] {
    this.#placed.set(key, (this.#placed.get(key) ?? new Set<string>()).add(id));
    return [{ type: 'hold', resource, eventTime }];
  }

  /** The last good version of a document that is refused since the start. */
  #lost(key: ResourceKey): AnyResource[] {
    if (this.#given.has(key)) return [];
    const resource = this.#options.lastGood.load(key);
    return resource === undefined ? [] : [resource];
  }

  /**
   * Last good versions of what the file had when it was last good, where a document of it cannot be told: it may be any
   * of them.
   */
  #lostOf({ id, origin }: ResourceProblem): AnyResource[] {
    const before = this.held.get(id)?.keys ?? [];
    const { synced, lastGood } = this.#options;
    const keys = synced() || origin.file === undefined ? before : [...before, ...lastGood.ofFile(origin.file)];
    return [...new Set(keys)].filter((key) => !this.#given.has(key)).flatMap((key) => this.#lost(key));
  }

  /** Takes out of force what was there because of a problem, but for `keep`. */
  #release(id: string, keep: ReadonlySet<ResourceKey>, eventTime: number): AdmittedEvent[] {
    const { keys = [] } = this.held.get(id) ?? {};
    this.held.delete(id);
    return keys.flatMap((key): AdmittedEvent[] => {
      const because = this.#placed.get(key);
      if (keep.has(key) || because?.delete(id) !== true || because.size > 0) return [];
      this.#placed.delete(key);
      // While sources are being read, another document may still bring it.
      if (this.#options.synced()) this.#options.lastGood.forget(key);
      return [{ type: 'release', key, eventTime }];
    });
  }
}

/** Whether a resource can be what a substitute stands for. */
function mayBe({ kind, namespace, name }: Substitute, key: ResourceKey): boolean {
  const [ofKind, ofNamespace, ofName] = key.split('/');
  return (
    ofKind === kind && (namespace === undefined || ofNamespace === namespace) && (name === undefined || ofName === name)
  );
}

/** The key of a document whose kind is at fault, or whose text cannot be parsed, but which names itself. */
function keyOfSubstitute(substitutes: readonly Substitute[]): ResourceKey | undefined {
  const [only, more] = substitutes;
  if (more !== undefined || only?.namespace === undefined || only.name === undefined) return undefined;
  return resourceKey(only.kind, only.namespace, only.name);
}
