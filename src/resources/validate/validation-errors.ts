/** Collects the faults of one resource: validators walk the content and note what an admission check would refuse. */
import type { Fault } from '../issues.ts';

export type Path = readonly (string | number)[];

/** Notes faults under a path; `at` gives a collector for a part of the content. */
export interface ValidationErrors {
  add(path: Path, message: string): void;
  at(...steps: (string | number)[]): ValidationErrors;
}

export function faultList(): { readonly faults: ValidationErrors; readonly found: Fault[] } {
  const found: Fault[] = [];
  return { faults: new Place(found, undefined, []), found };
}

/** A place in the content. Its path is put together only when there is a fault to note: mostly there is none. */
class Place implements ValidationErrors {
  readonly #found: Fault[];
  readonly #around: Place | undefined;
  readonly #steps: Path;

  constructor(found: Fault[], around: Place | undefined, steps: Path) {
    this.#found = found;
    this.#around = around;
    this.#steps = steps;
  }

  add(path: Path, message: string): void {
    this.#found.push({ path: [...this.#path(), ...path], message });
  }

  at(...steps: (string | number)[]): ValidationErrors {
    return new Place(this.#found, this, steps);
  }

  #path(): Path {
    return this.#around === undefined ? this.#steps : [...this.#around.#path(), ...this.#steps];
  }
}

/** Calls `check` for each item with a collector at its place. */
export function each<T>(
  faults: ValidationErrors,
  items: readonly T[] | undefined,
  check: (item: T, faults: ValidationErrors) => void,
): void {
  items?.forEach((item, index) => {
    check(item, faults.at(index));
  });
}

/** Notes every item whose name an earlier one has. `nameOf` gives `undefined` for items without one. */
export function unique<T>(
  faults: ValidationErrors,
  items: readonly T[] | undefined,
  field: Path,
  what: string,
  nameOf: (item: T) => string | number | undefined,
): void {
  const seen = new Set<string | number>();
  each(faults, items, (item, at) => {
    const name = nameOf(item);
    if (name === undefined) return;
    if (seen.has(name)) at.add(field, `duplicate ${what} ${JSON.stringify(name)}`);
    seen.add(name);
  });
}
