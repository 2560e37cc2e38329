/** Collects the errors of one resource: validators walk the content and add errors. */

import { beyondLimit, DEFAULT_LIMITS, type DocumentLimit, type DocumentLimits } from '../limits.ts';
import type { ValidationError } from '../parsing/issues.ts';

export type Path = readonly (string | number)[];

/** Adds errors under a path; `at` returns a collector for a part of the content. */
export interface ValidationErrors {
  add(path: Path, message: string): void;
  /** Adds a mistake for which only new documents are refused: stored documents keep their effect. */
  addForAuthor(path: Path, message: string): void;
  /** Returns false, and adds an error, if the document exceeds the limit. */
  atMost(limit: DocumentLimit, count: number | undefined): boolean;
  /**
   * Adds to a count for the whole document. Returns false if the document exceeds the limit, and adds an error the
   * first time.
   */
  spend(limit: DocumentLimit, amount: number): boolean;
  at(...steps: (string | number)[]): ValidationErrors;
}

export function errorList(limits: DocumentLimits = DEFAULT_LIMITS): {
  readonly errors: ValidationErrors;
  readonly found: ValidationError[];
} {
  const document: Checked = { found: [], limits, spent: new Map() };
  return { errors: new Place(document, undefined, []), found: document.found };
}

/** The state that all locations of a document share. */
interface Checked {
  readonly found: ValidationError[];
  readonly limits: DocumentLimits;
  readonly spent: Map<DocumentLimit, number>;
}

/** A location in the content. Its path is built only when there is an error, which is rare. */
class Place implements ValidationErrors {
  readonly #document: Checked;
  readonly #around: Place | undefined;
  readonly #steps: Path;

  constructor(document: Checked, around: Place | undefined, steps: Path) {
    this.#document = document;
    this.#around = around;
    this.#steps = steps;
  }

  add(path: Path, message: string): void {
    this.#document.found.push({ path: [...this.#path(), ...path], message });
  }

  atMost(name: DocumentLimit, count = 0): boolean {
    const limit = this.#document.limits[name];
    if (count <= limit) return true;
    this.add([], beyondLimit(name, limit, count));
    return false;
  }

  addForAuthor(path: Path, message: string): void {
    this.#document.found.push({ path: [...this.#path(), ...path], message, stored: 'in force' });
  }

  spend(name: DocumentLimit, amount: number): boolean {
    const { limits, spent } = this.#document;
    const [limit, before] = [limits[name], spent.get(name) ?? 0];
    spent.set(name, before + amount);
    if (before + amount <= limit) return true;
    if (before <= limit) this.add([], beyondLimit(name, limit));
    return false;
  }

  at(...steps: (string | number)[]): ValidationErrors {
    return new Place(this.#document, this, steps);
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

/** The sum over a list. */
export function sum<T>(items: readonly T[] | undefined, of: (item: T) => number): number {
  return items?.reduce((total, item) => total + of(item), 0) ?? 0;
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
