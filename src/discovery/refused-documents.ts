/** The refused documents of the cluster that is read, for those who report them. */
import { MESH_KINDS, type ResourceKey, type ResourceProblem } from '../resources/index.ts';

const REPORTED: ReadonlySet<string> = new Set(MESH_KINDS);

/** A refused document of the cluster. */
export interface RefusedDocument {
  readonly problem: ResourceProblem;
  /** What is in force instead. */
  readonly inForce: string;
}

/** The refused documents of the mesh's kinds in the program's own cluster. */
export class RefusedDocuments {
  readonly #byKey = new Map<ResourceKey, RefusedDocument>();
  #listener: ((key: ResourceKey) => void) | undefined;

  refused(problem: ResourceProblem, inForce: string): void {
    const { key } = problem;
    if (key === undefined || !REPORTED.has(kindOf(key))) return;
    this.#byKey.set(key, { problem, inForce });
    this.#listener?.(key);
  }

  resolved({ key }: ResourceProblem): void {
    if (key !== undefined && this.#byKey.delete(key)) this.#listener?.(key);
  }

  get(key: ResourceKey): RefusedDocument | undefined {
    return this.#byKey.get(key);
  }

  keys(): ResourceKey[] {
    return [...this.#byKey.keys()];
  }

  /** There is one listener: the controller, which runs while this replica leads. */
  onChanged(listener: (key: ResourceKey) => void): void {
    this.#listener = listener;
  }
}

function kindOf(key: ResourceKey): string {
  return key.slice(0, key.indexOf('/'));
}
