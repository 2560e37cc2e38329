/**
 * Refused documents of the guarded kinds (the security kinds, and those of the policy component), and what is in force
 * instead. While the program runs, sources keep the last good version of a document in force. After a restart it is
 * loaded from the state directory. If the state directory does not have it either, the strictest policy that the
 * document could have been is in force (`resources/parsing/substitute.ts`).
 *
 * events of a source ──▶ admit ──▶ the same events, with `hold` and `release` events of replacements ──▶ store
 *
 * Sources are independent: a replacement counts as a document of the source whose document is refused, and only
 * documents of earlier sources take precedence over it. So a good document of a later source does not replace a refused
 * one, which may have been stricter.
 */
import {
  type AnyResource,
  isGuardedKind,
  keyOf,
  type ResourceEvent,
  type ResourceKey,
  type ResourceProblem,
  resourceKey,
  type Substitute,
  substituteResource,
} from '../resources/index.ts';
import type { LastGood, SourceLastGood } from './last-good.ts';

/** What is in force instead of a refused document. */
export type InForce = 'last_good' | 'substitute';

/** A refused document of a guarded kind. */
export interface RefusedDocument {
  readonly problem: ResourceProblem;
  /** Keys of the resources in force instead. */
  readonly keys: readonly ResourceKey[];
  readonly inForce: InForce;
}

/**
 * An event of a source, or a consequence of one: `hold` puts a replacement of a refused document in force, `release`
 * takes it out of force.
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
export class RefusedPolicies {
  readonly #options: SecurityHoldOptions;
  readonly #sources = new Map<string, SourceRefusals>();
  #synced = false;

  constructor(options: SecurityHoldOptions) {
    this.#options = options;
  }

  /** The events of a source, for the store. */
  admit(source: string, events: readonly ResourceEvent[]): AdmittedEvent[] {
    let hold = this.#sources.get(source);
    if (hold === undefined) {
      const { lastGood, rootNamespace } = this.#options;
      hold = new SourceRefusals({ lastGood: lastGood.of(source), rootNamespace, synced: () => this.#synced });
      this.#sources.set(source, hold);
    }
    return hold.admit(events);
  }

  /** All sources have been read once: last good versions of documents that no source has are deleted. */
  synced(): void {
    this.#synced = true;
    this.#options.lastGood.retain(new Map([...this.#sources].map(([source, hold]) => [source, hold.keys()])));
  }

  /** Removes a source, whose documents are gone already. */
  remove(source: string): void {
    this.#sources.delete(source);
  }

  /** All refused documents, in order of their ids. */
  all(): readonly RefusedDocument[] {
    const held = [...this.#sources.values()].flatMap((hold) => [...hold.refused.values()]);
    return held.sort((a, b) => (a.problem.id < b.problem.id ? -1 : 1));
  }

  /** The refused document of a source's problem. */
  of(source: string, problemId: string): RefusedDocument | undefined {
    return this.#sources.get(source)?.refused.get(problemId);
  }
}

interface SourceHoldOptions {
  readonly lastGood: SourceLastGood;
  readonly rootNamespace: string;
  /** Whether all sources have been read once. */
  readonly synced: () => boolean;
}

/** The refused documents of one source. */
class SourceRefusals {
  readonly #options: SourceHoldOptions;
  /** By the problem's id. */
  readonly refused = new Map<string, RefusedDocument>();
  /** Replacements in force: key → ids of the problems that they are for. */
  readonly #replacements = new Map<ResourceKey, Set<string>>();
  /** Keys of the source's valid documents of the guarded kinds. */
  readonly #documents = new Set<ResourceKey>();

  constructor(options: SourceHoldOptions) {
    this.#options = options;
  }

  admit(events: readonly ResourceEvent[]): AdmittedEvent[] {
    return events.flatMap((event) => [event, ...this.#consequences(event)]);
  }

  /** Keys of the valid documents and of replacements. */
  keys(): ResourceKey[] {
    return [...this.#documents, ...this.#replacements.keys()];
  }

  #consequences(event: ResourceEvent): AdmittedEvent[] {
    switch (event.type) {
      case 'set':
        this.#recordGood(event.resource);
        return this.#release(keyOf(event.resource), new Set(), event.eventTime);
      case 'delete':
        this.#forget(event.key);
        return this.#release(event.key, new Set(), event.eventTime);
      case 'resolved':
        return this.#release(event.id, new Set(), event.eventTime);
      case 'invalid':
        return this.#refuse(event.problem, event.eventTime);
    }
  }

  #recordGood(resource: AnyResource): void {
    if (!isGuardedKind(resource.kind)) return;
    const key = keyOf(resource);
    // First: one that cannot be saved is refused, and must not count as a good version then.
    this.#options.lastGood.save(resource);
    this.#replacements.delete(key);
    this.#documents.add(key);
  }

  #forget(key: ResourceKey): void {
    const isKnown = [this.#replacements.delete(key), this.#documents.delete(key)].includes(true);
    if (isKnown) this.#options.lastGood.forget(key);
  }

  /** Puts replacements of a refused document in force. */
  #refuse(problem: ResourceProblem, eventTime: number): AdmittedEvent[] {
    const { rootNamespace } = this.#options;
    const { id, substitutes = [] } = problem;
    // A document of another kind. An unreadable document may be any policy that its file had, even when nothing in it
    // looks like one.
    if (problem.substitutes === undefined && problem.key !== undefined) return this.#release(id, new Set(), eventTime);
    const key = problem.key ?? keyOfSubstitute(substitutes);
    const restored = key === undefined ? this.#lastGoodOfFile(problem) : this.#lastGood(key);
    const wanted = new Map(restored.map((resource) => [keyOf(resource), resource]));
    const kept = (key === undefined ? (problem.kept ?? []) : [key]).filter((each) => this.#documents.has(each));
    const known = [...kept, ...wanted.keys()];
    let inForce: InForce = 'last_good';
    for (const substitute of substitutes) {
      if (known.some((each) => mayBe(substitute, each))) continue;
      const resource = substituteResource(substitute, { rootNamespace, id, origin: problem.origin });
      inForce = 'substitute';
      // A valid document in another file may have the name.
      if (!this.#documents.has(keyOf(resource))) wanted.set(keyOf(resource), resource);
    }
    const keys = [...new Set([...known, ...wanted.keys()])];
    const released = this.#release(id, new Set(wanted.keys()), eventTime);
    if (keys.length === 0) return released;
    this.refused.set(id, { problem, keys, inForce });
    return [...released, ...[...wanted].flatMap(([each, resource]) => this.#replace(id, each, resource, eventTime))];
  }

  #replace(id: string, key: ResourceKey, resource: AnyResource, eventTime: number): AdmittedEvent[] {
    this.#replacements.set(key, (this.#replacements.get(key) ?? new Set<string>()).add(id));
    return [{ type: 'hold', resource, eventTime }];
  }

  /** The last good version from disk, for a document that has been refused since the start. */
  #lastGood(key: ResourceKey): AnyResource[] {
    if (this.#documents.has(key)) return [];
    const resource = this.#options.lastGood.load(key);
    return resource === undefined ? [] : [resource];
  }

  /** The last good versions of the documents of a file, for an unreadable document: it may be any of them. */
  #lastGoodOfFile({ id, origin }: ResourceProblem): AnyResource[] {
    const before = this.refused.get(id)?.keys ?? [];
    const { synced, lastGood } = this.#options;
    const keys = synced() || origin.file === undefined ? before : [...before, ...lastGood.ofFile(origin.file)];
    return [...new Set(keys)].filter((key) => !this.#documents.has(key)).flatMap((key) => this.#lastGood(key));
  }

  /** Takes the replacements for a problem out of force, except `keep`. */
  #release(id: string, keep: ReadonlySet<ResourceKey>, eventTime: number): AdmittedEvent[] {
    const { keys = [] } = this.refused.get(id) ?? {};
    this.refused.delete(id);
    return keys.flatMap((key): AdmittedEvent[] => {
      const because = this.#replacements.get(key);
      if (keep.has(key) || because?.delete(id) !== true || because.size > 0) return [];
      this.#replacements.delete(key);
      // While sources are being read, another file may still have the document.
      if (this.#options.synced()) this.#options.lastGood.forget(key);
      return [{ type: 'release', key, eventTime }];
    });
  }
}

/** Whether a substitute may replace the document with this key. */
function mayBe({ kind, namespace, name }: Substitute, key: ResourceKey): boolean {
  const [ofKind, ofNamespace, ofName] = key.split('/');
  return (
    ofKind === kind && (namespace === undefined || ofNamespace === namespace) && (name === undefined || ofName === name)
  );
}

/** The key of a document that cannot be parsed as its kind but has a readable name. */
function keyOfSubstitute(substitutes: readonly Substitute[]): ResourceKey | undefined {
  const [only, more] = substitutes;
  if (more !== undefined || only?.namespace === undefined || only.name === undefined) return undefined;
  return resourceKey(only.kind, only.namespace, only.name);
}
