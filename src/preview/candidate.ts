/**
 * The documents of a change, and which resources in force it would change: as if the documents were applied to the
 * source of mesh configuration, or took the place of the whole directory.
 */
import { CtlError } from '../core/errors.ts';
import type { Slices } from '../core/slices.ts';
import {
  type AnyResource,
  type DocumentLimits,
  fingerprintOf,
  keyOf,
  type ParsedResource,
  type ResourceChange,
  type ResourceKey,
  type ResourceOrigin,
  type ResourceProblem,
  type Substitute,
  substituteResource,
} from '../resources/index.ts';
import { longestDocument, readDocuments } from '../sources/index.ts';
import type { Store } from '../store/index.ts';
import type { DocumentOutcome, PreviewCaller, PreviewRequest } from './types.ts';

/** Resources that one change may change: they are applied to the copy of the model at once, as when they are published. */
const MAX_CHANGES = 2000;
/** Documents of a change, also those that change nothing. */
const MAX_DOCUMENTS = 100_000;
/** Characters of one document, which is parsed without interruption: API servers accept about as much. */
const MAX_DOCUMENT = 1_500_000;

/** Where documents of the mesh come from. */
export interface Target {
  /** Id of the source that the change is applied to. */
  readonly source: string;
  /** Whether its documents are files, which replace each other as a whole directory. */
  readonly isDirectory: boolean;
  readonly limits: DocumentLimits;
  readonly rootNamespace: string;
  /** Milliseconds since the epoch, for new objects of a cluster. */
  readonly now: () => number;
}

export type StoreReader = Pick<Store, 'documents' | 'documentsOf' | 'get' | 'inForceWith' | 'keeps'>;

export interface Candidate {
  readonly outcomes: readonly DocumentOutcome[];
  /** Of the resources in force, by key. */
  readonly changes: readonly ResourceChange[];
}

/**
 * Yields after each document. Throws CtlError `permission_denied` for a document that the caller may not see,
 * `resource_exhausted` as soon as there is more than can be compared.
 */
export function* readCandidate(
  { files, replaceDirectory }: PreviewRequest,
  store: StoreReader,
  target: Target,
  caller: PreviewCaller,
): Slices<Candidate> {
  if (replaceDirectory && !target.isDirectory)
    throw new CtlError('failed_precondition', 'the mesh is not configured by a directory: pass files');
  if (replaceDirectory && !caller.sees(''))
    throw new CtlError('permission_denied', 'a whole directory may be compared by callers who see all namespaces only');
  const reading = new Reading(store, target, caller);
  for (const { file, text } of files) {
    if (longestDocument(file, text) > MAX_DOCUMENT)
      throw new CtlError('resource_exhausted', `expected documents of at most ${MAX_DOCUMENT} characters`, { file });
    const parts = yield* readDocuments(file, text, [], target.limits);
    for (const part of parts)
      for (const found of part.found) {
        reading.take(found, file);
        yield;
      }
  }
  if (replaceDirectory) yield* reading.removeOthers();
  return reading;
}

class Reading implements Candidate {
  readonly outcomes: DocumentOutcome[] = [];
  readonly #changes = new Map<ResourceKey, ResourceChange>();
  readonly #store: StoreReader;
  readonly #target: Target;
  readonly #caller: PreviewCaller;
  /** Keys of all documents, also of refused ones. */
  readonly #present = new Set<ResourceKey>();
  /** Files with documents whose keys cannot be read: they may be any of their file. */
  readonly #unreadable = new Set<string>();

  constructor(store: StoreReader, target: Target, caller: PreviewCaller) {
    this.#store = store;
    this.#target = target;
    this.#caller = caller;
  }

  get changes(): readonly ResourceChange[] {
    return [...this.#changes.values()];
  }

  take(found: ParsedResource, file: string): void {
    if (this.outcomes.length >= MAX_DOCUMENTS)
      throw new CtlError('resource_exhausted', `expected at most ${MAX_DOCUMENTS} documents`);
    if ('resource' in found) this.#set(found.resource);
    else if ('problem' in found) this.#refuse(found.problem, file);
    else
      this.outcomes.push({
        effect: 'ignored',
        at: at(found.ignored.origin),
        message: `${found.ignored.what} is not read`,
      });
  }

  /** Removes the documents of the directory that are not in the files. */
  *removeOthers(): Slices<void> {
    const files = [...this.#unreadable];
    for (const [key, { origin }] of this.#store.documentsOf(this.#target.source)) {
      if (this.#present.has(key)) continue;
      // Its last version stays in force while a document of its file cannot be read.
      if (files.some((file) => origin.file?.endsWith(`/${file.replace(/^.*\//, '')}`) === true)) continue;
      const after = this.#store.inForceWith(this.#target.source, key, undefined);
      this.#change(key, after);
      this.outcomes.push({ effect: 'removed', key, at: at(origin) });
      yield;
    }
  }

  #set(resource: AnyResource): void {
    const key = keyOf(resource);
    const { origin, warnings = [] } = resource;
    this.#mayBeSeen(resource.meta.namespace, key, origin);
    const described = {
      key,
      at: at(origin),
      ...(warnings.length > 0 && { warnings: warnings.map(({ field, message }) => `${field}: ${message}`) }),
    };
    if (this.#present.has(key)) {
      this.outcomes.push({ ...described, effect: 'ignored', message: 'another document of the change has this key' });
      return;
    }
    this.#present.add(key);
    if (!this.#store.keeps(key)) {
      this.outcomes.push({ ...described, effect: 'ignored', message: 'its namespace is not read (--appNamespace)' });
      return;
    }
    const candidate = this.#target.isDirectory ? resource : this.#stored(key, resource);
    const after = this.#store.inForceWith(this.#target.source, key, candidate);
    const effect = this.#change(key, after);
    if (after !== candidate)
      this.outcomes.push({
        ...described,
        effect,
        message: `the document of source ${after?.origin.source} stays in force`,
      });
    else this.outcomes.push({ ...described, effect });
  }

  /** An object of a cluster keeps its age, which decides between objects that conflict. */
  #stored(key: ResourceKey, resource: AnyResource): AnyResource {
    const known = this.#store.documentsOf(this.#target.source).get(key);
    const meta = { ...resource.meta, created: known?.meta.created ?? this.#target.now() };
    const fingerprint = fingerprintOf(resource.kind, meta, resource.content);
    return { ...resource, meta, fingerprint };
  }

  /** @returns what it does to the resource in force */
  #change(key: ResourceKey, after: AnyResource | undefined): 'added' | 'changed' | 'unchanged' | 'removed' {
    const before = this.#store.get(key);
    if (before?.fingerprint === after?.fingerprint) return 'unchanged';
    this.#changes.set(key, { key, before, after });
    if (this.#changes.size > MAX_CHANGES)
      throw new CtlError('resource_exhausted', `at most ${MAX_CHANGES} documents that differ can be compared`);
    if (before === undefined) return 'added';
    return after === undefined ? 'removed' : 'changed';
  }

  #refuse(problem: ResourceProblem, file: string): void {
    const { key, field, message, origin } = problem;
    if (key !== undefined) this.#mayBeSeen(key.split('/')[1] ?? '', key, origin);
    if (key === undefined) this.#unreadable.add(file);
    else this.#present.add(key);
    const instead = this.#insteadOf(problem);
    const text = [field, message, instead].filter((part) => part !== '').join(': ');
    this.outcomes.push({ effect: 'refused', ...(key !== undefined && { key }), at: at(origin), message: text });
  }

  /** Puts in force what would be instead of a refused policy. */
  #insteadOf({ id, key, origin, substitutes = [] }: ResourceProblem): string {
    if (key !== undefined && this.#store.get(key) !== undefined) return 'the last good version stays in force';
    const [first] = substitutes;
    // A document without a readable key may be one that is in force.
    if (first === undefined || key === undefined) return '';
    for (const substitute of substitutes) this.#substitute(substitute, id, origin);
    return 'the strictest policy that it can be would be in force';
  }

  #substitute(substitute: Substitute, id: string, origin: ResourceOrigin): void {
    const { rootNamespace } = this.#target;
    const resource = substituteResource(substitute, { rootNamespace, id, origin });
    if (this.#store.keeps(keyOf(resource))) this.#change(keyOf(resource), resource);
  }

  #mayBeSeen(namespace: string, key: ResourceKey, origin: ResourceOrigin): void {
    if (this.#caller.sees(namespace)) return;
    const { file, line } = origin;
    const where = { ...(file !== undefined && { file }), ...(line !== undefined && { line }), resource: key };
    throw new CtlError('permission_denied', 'documents of other namespaces may not be compared', where);
  }
}

function at({ file = '', line }: ResourceOrigin): string {
  return line === undefined ? file : `${file}:${line}`;
}
