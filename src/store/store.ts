/**
 * The store has the last good version of each document of each source, and records which resources in force have
 * changed since the last snapshot. If several sources have a document with the same key, the document of the first
 * source in the configured order is in force. The others are kept, and come into force when the documents of earlier
 * sources are deleted. Events may arrive in any order; only the last state per source and key counts.
 */
import { InternalError } from '../core/errors.ts';
import { finish, type Slices } from '../core/slices.ts';
import {
  type AnyResource,
  isClusterScoped,
  keyOf,
  type MeshUpdate,
  NO_EVENT,
  type ResourceChange,
  type ResourceEvent,
  type ResourceKey,
  type ResourceList,
  type ResourceProblem,
} from '../resources/index.ts';
import type { SourceIdentity } from '../sources/index.ts';
import { attempt, refusalsOf } from './internal-refusal.ts';
import type { AdmittedEvent } from './refused-policies.ts';
import {
  type CountedEvent,
  kindOfKey,
  namespaceOfKey,
  type SourceDocument,
  SourceDocuments,
} from './source-documents.ts';
import type { AppliedSummary, Store, StoreOptions } from './types.ts';

/** The state of a key before its first change since the last `take`. */
interface Pending {
  readonly before: AnyResource | undefined;
  readonly eventTime: number;
}

/** What is known of a batch while it is applied. */
interface Batch {
  /** The resources that were in force before it. */
  readonly start: Map<ResourceKey, AnyResource | undefined>;
  readonly counted: CountedEvent[];
  newProblems: number;
}

/** The document in force, and those of other sources that differ from it. */
interface Conflict {
  readonly inForce: SourceDocument | undefined;
  readonly others: readonly SourceDocument[];
}

const NO_CONFLICT: Conflict = { inForce: undefined, others: [] };

export function createStore(options: StoreOptions): Store {
  return new DocumentStore(options);
}

class DocumentStore implements Store {
  readonly #options: StoreOptions;
  /** Namespaces whose resources are kept; undefined: all. */
  readonly #namespaces: ReadonlySet<string> | undefined;
  /** In order of precedence. */
  readonly #sources: SourceDocuments[];
  readonly #configured: ReadonlySet<string>;
  readonly #pending = new Map<ResourceKey, Pending>();

  constructor(options: StoreOptions) {
    const { sources, appNamespaces, rootNamespace } = options;
    this.#options = options;
    this.#namespaces = appNamespaces.length === 0 ? undefined : new Set([...appNamespaces, rootNamespace]);
    this.#sources = sources.map((identity) => this.#documentsOfSource(identity));
    this.#configured = new Set(sources.map(({ id }) => id));
  }

  apply(id: string, events: readonly ResourceEvent[]): AppliedSummary {
    return finish(this.applyInSlices(id, events));
  }

  *applyInSlices(id: string, events: readonly ResourceEvent[]): Slices<AppliedSummary> {
    const source = this.#source(id);
    return yield* this.#run(source, source.inCluster(events));
  }

  replace(id: string, list: ResourceList): AppliedSummary {
    return finish(this.replaceInSlices(id, list));
  }

  *replaceInSlices(id: string, list: ResourceList): Slices<AppliedSummary> {
    const source = this.#source(id);
    return yield* this.#run(source, source.changesTo({ ...list, events: source.inCluster(list.events) }));
  }

  *retryInSlices(id: string): Slices<AppliedSummary> {
    const source = this.#source(id);
    return yield* this.#run(source, [...source.unapplied.values()]);
  }

  unapplied(id: string): ReadonlyMap<ResourceKey, string> {
    const { unapplied, problems } = this.#sources.find((each) => each.id === id) ?? {};
    return new Map([...(unapplied?.keys() ?? [])].map((key) => [key, problems?.get(key)?.message ?? 'internal error']));
  }

  add(identity: SourceIdentity): void {
    const sources = this.#sources;
    if (sources.some(({ id }) => id === identity.id)) return;
    const behind = sources.findIndex(({ id }) => !this.#configured.has(id) && id > identity.id);
    sources.splice(behind < 0 ? sources.length : behind, 0, this.#documentsOfSource(identity));
  }

  remove(id: string, eventTime: number): AppliedSummary {
    const source = this.#source(id);
    const summary = finish(this.#run(source, source.changesTo({ events: [], eventTime })));
    this.#sources.splice(this.#sources.indexOf(source), 1);
    this.#options.refusedPolicies?.remove(id);
    return summary;
  }

  take(filter?: (key: ResourceKey) => boolean): MeshUpdate {
    const keys = [...this.#pending.keys()].filter((key) => filter === undefined || filter(key)).sort();
    let eventTime = NO_EVENT;
    const changes = keys.map((key): ResourceChange => {
      const first = this.#pending.get(key);
      this.#pending.delete(key);
      eventTime = Math.min(first?.eventTime ?? NO_EVENT, eventTime);
      return { key, before: first?.before, after: this.get(key) };
    });
    return { changes, eventTime };
  }

  pending(key: ResourceKey): ResourceChange {
    const after = this.get(key);
    const first = this.#pending.get(key);
    return { key, before: first === undefined ? after : first.before, after };
  }

  hasPending(): boolean {
    return this.#pending.size > 0;
  }

  get(key: ResourceKey): AnyResource | undefined {
    for (const { documents } of this.#sources) {
      const resource = documents.get(key);
      if (resource !== undefined) return resource;
    }
    return undefined;
  }

  documents(key: ResourceKey): SourceDocument[] {
    return this.#sources.flatMap((source) => source.document(key) ?? []);
  }

  inForceWith(source: string, key: ResourceKey, document: AnyResource | undefined): AnyResource | undefined {
    for (const { id, documents } of this.#sources) {
      const resource = id === source ? document : documents.get(key);
      if (resource !== undefined) return resource;
    }
    return undefined;
  }

  documentsOf(source: string): ReadonlyMap<ResourceKey, AnyResource> {
    return this.#source(source).documents;
  }

  *sharedKeys(): Iterable<ResourceKey> {
    for (const [index, { documents }] of this.#sources.entries()) {
      const before = this.#sources.slice(0, index);
      // Yields each key once, for the second source that has it.
      for (const key of documents.keys()) if (before.filter((each) => each.documents.has(key)).length === 1) yield key;
    }
  }

  problems(): ResourceProblem[] {
    return this.#sources.flatMap(({ problems }) => [...problems.values()]);
  }

  #documentsOfSource({ id, cluster }: SourceIdentity): SourceDocuments {
    return new SourceDocuments(id, cluster === this.#options.cluster ? undefined : cluster);
  }

  #source(id: string): SourceDocuments {
    const source = this.#sources.find((each) => each.id === id);
    if (source === undefined) throw new InternalError(`no source ${id} is configured`);
    return source;
  }

  keeps(key: ResourceKey): boolean {
    if (this.#namespaces === undefined || isClusterScoped(kindOfKey(key))) return true;
    return this.#namespaces.has(namespaceOfKey(key));
  }

  #isRelevant(event: ResourceEvent): boolean {
    if (event.type === 'resolved') return true;
    const key = event.type === 'invalid' ? event.problem.key : keyOfEvent(event);
    return key === undefined || this.keeps(key);
  }

  *#run(source: SourceDocuments, events: readonly ResourceEvent[]): Slices<AppliedSummary> {
    // Events that are not kept have no other consequences either: no policy is refused, for example.
    const relevant = this.#namespaces === undefined ? events : events.filter((event) => this.#isRelevant(event));
    const batch: Batch = { start: new Map(), counted: [], newProblems: 0 };
    let failure: Error | undefined;
    for (const event of relevant) {
      // One by one: an event that cannot be applied affects no other.
      const error = this.#applyOrRefuse(source, event, batch);
      failure ??= error;
      yield;
    }
    const changed = new Set<ResourceKey>();
    for (const [key, before] of batch.start) if (before?.fingerprint !== this.get(key)?.fingerprint) changed.add(key);
    return { changed, events: batch.counted, newProblems: batch.newProblems, failure };
  }

  /** @returns the error of an event that could neither be applied nor be refused */
  #applyOrRefuse(source: SourceDocuments, event: ResourceEvent, batch: Batch): Error | undefined {
    source.superseded(event);
    const key = event.type === 'set' ? keyOf(event.resource) : undefined;
    const before = key === undefined ? undefined : source.document(key);
    const { length } = batch.counted;
    const error = attempt(() => this.#applyEvent(source, event, batch));
    if (error === undefined) return undefined;
    if (event.type === 'set' && key !== undefined) {
      this.#restore(source, key, before);
      source.unapplied.set(key, event);
    }
    batch.counted.length = length;
    return this.#refuseFailed(source, event, error, batch) ? undefined : error;
  }

  #applyEvent(source: SourceDocuments, event: ResourceEvent, batch: Batch): void {
    const admit = (): AdmittedEvent[] =>
      this.#options.refusedPolicies?.admit(source.id, [event]).filter((each) => each !== event) ?? [];
    batch.counted.push(source.countedEvent(event));
    if (event.type === 'invalid') {
      // The report of a problem names what is in force instead.
      for (const each of admit()) this.#putNoted(source, each, batch);
      if (this.#refuse(source, event.problem)) batch.newProblems++;
      return;
    }
    this.#putNoted(source, event, batch);
    // Only now: a document that could not be applied is no good version of it.
    for (const each of admit()) this.#putNoted(source, each, batch);
    // Last: the problem of a document that still cannot be applied has not ended.
    if (event.type !== 'resolved') this.#resolve(source, keyOfEvent(event));
  }

  /** Takes back what the event of a document has done before it failed. */
  #restore(source: SourceDocuments, key: ResourceKey, before: SourceDocument | undefined): void {
    const failed = this.get(key);
    source.put(key, before?.resource, before?.replacesRefused === true);
    attempt(() => this.#noteChange(key, failed, NO_EVENT));
  }

  /** Refuses the document of an event that could not be applied. False where that is not possible either. */
  #refuseFailed(source: SourceDocuments, event: ResourceEvent, error: Error, batch: Batch): boolean {
    for (const refusal of refusalsOf(event, error)) {
      if (attempt(() => this.#applyEvent(source, refusal(), batch)) === undefined) return true;
    }
    return false;
  }

  #putNoted(source: SourceDocuments, event: AdmittedEvent, { start }: Batch): void {
    if (event.type === 'invalid') return;
    if (event.type === 'resolved') {
      this.#resolve(source, event.id);
      return;
    }
    const key = keyOfEvent(event);
    if (!start.has(key)) start.set(key, this.get(key));
    this.#put(source, event);
  }

  /** True for a new or changed problem. */
  #refuse(source: SourceDocuments, problem: ResourceProblem): boolean {
    const isNews = source.refuse(problem);
    if (isNews) this.#options.onRefused(source.id, problem);
    return isNews;
  }

  #resolve(source: SourceDocuments, id: string): void {
    const problem = source.resolve(id);
    if (problem !== undefined) this.#options.onResolved(source.id, problem);
  }

  /** Applies an event of a source, or a consequence of one. */
  #put(source: SourceDocuments, event: Exclude<AdmittedEvent, ProblemEvent>): void {
    const { onTakeover, onWarnings } = this.#options;
    const key = keyOfEvent(event);
    if (!this.keeps(key)) return;
    const resource = 'resource' in event ? event.resource : undefined;
    const before = this.get(key);
    const conflict = this.#conflict(key);
    const replaced = source.put(key, resource, event.type === 'hold');
    this.#noteChange(key, before, event.eventTime);
    if (resource !== undefined) this.#reportConflict(key, conflict);
    if (resource === undefined && replaced !== undefined && replaced === before) {
      const [next] = this.documents(key);
      if (next !== undefined) onTakeover?.(key, source.id, next);
    }
    if (event.type === 'hold' || resource?.warnings === undefined) return;
    if (JSON.stringify(replaced?.warnings) !== JSON.stringify(resource.warnings)) onWarnings?.(key, resource);
  }

  /** Notes that a key's resource in force was `before`, until an event of this time. */
  #noteChange(key: ResourceKey, before: AnyResource | undefined, eventTime: number): void {
    const after = this.get(key);
    if (before?.fingerprint === after?.fingerprint) return;
    const first = this.#pending.get(key);
    if (first === undefined) this.#pending.set(key, { before, eventTime });
    else if (first.before?.fingerprint === after?.fingerprint) this.#pending.delete(key);
    else if (eventTime < first.eventTime) this.#pending.set(key, { ...first, eventTime });
  }

  #conflict(key: ResourceKey): Conflict {
    // The common case: one source has no conflicts.
    if (this.#sources.length < 2) return NO_CONFLICT;
    const [inForce, ...others] = this.documents(key);
    const { fingerprint } = inForce?.resource ?? {};
    return { inForce, others: others.filter(({ resource }) => resource.fingerprint !== fingerprint) };
  }

  /** Reports documents that differ from the one in force and did not before. */
  #reportConflict(key: ResourceKey, before: Conflict): void {
    const { inForce, others } = this.#conflict(key);
    const known = new Set(before.others.map(({ source }) => source));
    if (inForce === undefined || others.every(({ source }) => known.has(source))) return;
    this.#options.onShared?.(key, [inForce, ...others]);
  }
}

type ProblemEvent = Extract<AdmittedEvent, { readonly type: 'invalid' | 'resolved' }>;

function keyOfEvent(event: Exclude<AdmittedEvent, ProblemEvent>): ResourceKey {
  return 'resource' in event ? keyOf(event.resource) : event.key;
}
