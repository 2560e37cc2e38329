/**
 * Chooses the EnvoyFilters for a unit if the current ones do not all fit. Leaving out the whole unit would affect more
 * than the mistake, and leaving out all patches would allow a namespace to remove those of the root namespace. So one
 * EnvoyFilter at a time is replaced by the version that the unit was last generated with. All patches of an EnvoyFilter
 * for a unit have the same version, because they may depend on each other.
 */
import type { ResourceKey } from '../../resources/index.ts';
import type { FormerFilter, Misfit, UnitOutput } from '../types.ts';
import type { AppliedFilter } from '../views.ts';

/** What the unit was last made with, by EnvoyFilter. */
export type Former = ReadonlyMap<ResourceKey, FormerFilter>;

interface Fitted {
  /** Undefined if no choice of EnvoyFilters fits the unit. */
  readonly output: UnitOutput | undefined;
  readonly misfits: readonly Misfit[];
}

/** Maximum number of EnvoyFilters that are replaced one by one; if more do not fit, all later ones are left out. */
const MAX_REPLACED = 8;
/** Maximum attempts with former versions for a unit. */
const MAX_FORMER_ATTEMPTS = 32;

/** The EnvoyFilters by position; undefined if left out. */
type Choice = readonly (FormerFilter | undefined)[];

/**
 * @param make throws an error if one of the EnvoyFilters does not fit
 */
export function fitting(
  current: readonly AppliedFilter[],
  former: Former,
  make: (filters: readonly FormerFilter[]) => UnitOutput,
): Fitted {
  const attempt = (choice: Choice): UnitOutput | undefined => {
    try {
      return make(choice.filter((filter) => filter !== undefined));
    } catch {
      return undefined;
    }
  };
  let choice: Choice = current;
  let attempts = MAX_FORMER_ATTEMPTS;
  for (let replaced = 0; ; replaced++) {
    const { count, output } = longest(choice, attempt);
    if (count === choice.length) return { output, misfits: listMisfits(current, choice) };
    if (replaced === MAX_REPLACED) return { output, misfits: listMisfits(current, choice.slice(0, count)) };
    let next: Choice | undefined;
    for (const candidate of replacements(choice, count, former)) {
      if (attempts-- <= 0) break;
      if (attempt(candidate.slice(0, count + 1)) === undefined) continue;
      next = candidate;
      break;
    }
    choice = next ?? choice.with(count, undefined);
  }
}

/** Finds the largest `count` for which the first `count` filters fit together. */
function longest(
  choice: Choice,
  attempt: (choice: Choice) => UnitOutput | undefined,
): { readonly count: number; readonly output: UnitOutput | undefined } {
  let good = 0;
  let bad = choice.length + 1;
  let output: UnitOutput | undefined;
  for (let count = choice.length; good < count && count < bad; count = (good + bad) >> 1) {
    const made = attempt(choice.slice(0, count));
    if (made === undefined) bad = count;
    else [good, output] = [count, made];
  }
  return { count: good, output };
}

/**
 * The choices to try if the filter at a position does not fit those before it: its former version; then, because
 * earlier ones may be the cause, the former versions of other changed EnvoyFilters of its namespace, the nearest first,
 * and finally all of them. An EnvoyFilter of a namespace never causes one of the root namespace to be replaced.
 */
function* replacements(choice: Choice, at: number, former: Former): Generator<Choice> {
  const culprit = choice[at];
  // The filter never fit the unit: no other EnvoyFilter is the cause.
  if (culprit === undefined || !former.has(culprit.key)) return;
  const base = hasChanged(culprit, former) ? choice.with(at, former.get(culprit.key)) : choice;
  if (base !== choice) yield base;
  const earlier = choice.slice(0, at).flatMap((filter, index) => {
    return filter && namespaceOf(filter) === namespaceOf(culprit) && hasChanged(filter, former) ? [index] : [];
  });
  const reverted = (from: Choice, index: number): Choice => from.with(index, former.get(choice[index]?.key ?? ''));
  for (const index of earlier.toReversed()) yield reverted(base, index);
  if (earlier.length > 1) yield earlier.reduce(reverted, base);
}

/** Whether it is the current version and the unit was last generated with another version or without it. */
function hasChanged({ key, content }: FormerFilter, former: Former): boolean {
  if (content !== undefined) return false;
  const known = former.get(key);
  return known === undefined || known.content !== undefined;
}

/** `EnvoyFilter/namespace/name` */
function namespaceOf({ key }: AppliedFilter): string | undefined {
  return key.split('/')[1];
}

function listMisfits(current: readonly AppliedFilter[], choice: Choice): readonly Misfit[] {
  return current.flatMap(({ key }, index): Misfit[] => {
    const chosen = choice[index];
    if (chosen === undefined) return [{ key, use: 'nothing' }];
    return chosen.content === undefined ? [] : [{ key, use: 'former version' }];
  });
}
