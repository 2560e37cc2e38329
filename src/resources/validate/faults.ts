/** Collects the faults of one resource: validators walk the content and note what an admission check would refuse. */
import type { Fault } from '../issues.ts';

export type Path = readonly (string | number)[];

/** Notes faults under a path; `at` gives a collector for a part of the content. */
export interface Faults {
  add(path: Path, message: string): void;
  at(...steps: (string | number)[]): Faults;
}

export function faultList(): { readonly faults: Faults; readonly found: Fault[] } {
  const found: Fault[] = [];
  const under = (base: Path): Faults => ({
    add: (path, message) => {
      found.push({ path: [...base, ...path], message });
    },
    at: (...steps) => under([...base, ...steps]),
  });
  return { faults: under([]), found };
}

/** Calls `check` for each item with a collector at its place. */
export function each<T>(
  faults: Faults,
  items: readonly T[] | undefined,
  check: (item: T, faults: Faults) => void,
): void {
  items?.forEach((item, index) => {
    check(item, faults.at(index));
  });
}

/** Notes every item whose name an earlier one has. `nameOf` gives `undefined` for items without one. */
export function unique<T>(
  faults: Faults,
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
