/** Collects the errors of one resource: validators walk the content and add what they refuse. */
import type { ValidationError } from '../issues.ts';

export type Path = readonly (string | number)[];

/** Adds errors under a path; `at` gives a collector for a part of the content. */
export interface ValidationErrors {
  add(path: Path, message: string): void;
  /** A mistake for which only new documents are refused: stored ones keep the meaning that they have. */
  addForAuthor(path: Path, message: string): void;
  at(...steps: (string | number)[]): ValidationErrors;
}

export function errorList(): { readonly errors: ValidationErrors; readonly found: ValidationError[] } {
  const found: ValidationError[] = [];
  return { errors: new Place(found, undefined, []), found };
}

/** A location in the content. Its path is built only when there is an error, which is rare. */
class Place implements ValidationErrors {
  readonly #found: ValidationError[];
  readonly #around: Place | undefined;
  readonly #steps: Path;

  constructor(found: ValidationError[], around: Place | undefined, steps: Path) {
    this.#found = found;
    this.#around = around;
    this.#steps = steps;
  }

  add(path: Path, message: string): void {
    this.#found.push({ path: [...this.#path(), ...path], message });
  }

  addForAuthor(path: Path, message: string): void {
    this.#found.push({ path: [...this.#path(), ...path], message, stored: 'in force' });
  }

  at(...steps: (string | number)[]): ValidationErrors {
    return new Place(this.#found, this, steps);
  }

  #path(): Path {
    return this.#around === undefined ? this.#steps : [...this.#around.#path(), ...this.#steps];
  }
}

/** Calls `check` for each item with a collector at its location. */
export function each<T>(
  errors: ValidationErrors,
  items: readonly T[] | undefined,
  check: (item: T, errors: ValidationErrors) => void,
): void {
  items?.forEach((item, index) => {
    check(item, errors.at(index));
  });
}

/**
 * Adds an error for every item with the same name as an earlier one. `nameOf` gives `undefined` for items without name.
 */
export function unique<T>(
  errors: ValidationErrors,
  items: readonly T[] | undefined,
  field: Path,
  what: string,
  nameOf: (item: T) => string | number | undefined,
): void {
  const seen = new Set<string | number>();
  each(errors, items, (item, at) => {
    const name = nameOf(item);
    if (name === undefined) return;
    if (seen.has(name)) at.add(field, `duplicate ${what} ${JSON.stringify(name)}`);
    seen.add(name);
  });
}
