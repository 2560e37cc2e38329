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
  #listener: ((id: string) => void) | undefined;

  refused(problem: ResourceProblem, inForce: string): void {
    const { id, key } = problem;
    if (key === undefined || !REPORTED.has(kindOf(key))) return;
    this.#byId.set(id, { key, problem, inForce });
    this.#listener?.(id);
  }

  resolved({ id }: ResourceProblem): void {
    if (this.#byId.delete(id)) this.#listener?.(id);
  }

  get(id: string): RefusedDocument | undefined {
    return this.#byId.get(id);
  }

  ids(): string[] {
    return [...this.#byId.keys()];
  }

  /** There is one listener: the controller, which runs while this replica leads. */
  onChanged(listener: (id: string) => void): void {
    this.#listener = listener;
  }
}

function kindOf(key: ResourceKey): string {
  return key.slice(0, key.indexOf('/'));
}
