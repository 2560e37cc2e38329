/** The refused documents of the cluster that is read, for components that report them. */
import { MESH_KINDS, type ResourceKey, type ResourceProblem } from '../../resources/index.ts';

const REPORTED: ReadonlySet<string> = new Set(MESH_KINDS);

/** A refused document of the cluster. */
export interface RefusedDocument {
  readonly key: ResourceKey;
  readonly problem: ResourceProblem;
  /** What is in force instead. */
  readonly inForce: string;
}

/**
 * The refused documents of the mesh's kinds in the program's own cluster, by the identifier of the problem: documents
 * of one key in two API groups can both be refused.
 */
export class RefusedDocuments {
  readonly #byId = new Map<string, RefusedDocument>();
  readonly #byKey = new Map<ResourceKey, Set<string>>();
  readonly #listeners: ((id: string) => void)[] = [];

  refused(problem: ResourceProblem, inForce: string): void {
    const { id, key } = problem;
    if (key === undefined || !REPORTED.has(kindOf(key))) return;
    this.#byId.set(id, { key, problem, inForce });
    this.#byKey.set(key, (this.#byKey.get(key) ?? new Set()).add(id));
    this.#tell(id);
  }

  resolved({ id }: ResourceProblem): void {
    const refused = this.#byId.get(id);
    if (refused === undefined) return;
    this.#byId.delete(id);
    const ids = this.#byKey.get(refused.key);
    ids?.delete(id);
    if (ids?.size === 0) this.#byKey.delete(refused.key);
    this.#tell(id);
  }

  get(id: string): RefusedDocument | undefined {
    return this.#byId.get(id);
  }

  /** The refused documents of a key. */
  of(key: ResourceKey): readonly RefusedDocument[] {
    return [...(this.#byKey.get(key) ?? [])].flatMap((id) => this.#byId.get(id) ?? []);
  }

  ids(): string[] {
    return [...this.#byId.keys()];
  }

  /** Calls the listener with the identifiers of problems that are new or have ended, from now on. */
  onChanged(listener: (id: string) => void): void {
    this.#listeners.push(listener);
  }

  #tell(id: string): void {
    for (const listener of this.#listeners) listener(id);
  }
}

function kindOf(key: ResourceKey): string {
  return key.slice(0, key.indexOf('/'));
}
